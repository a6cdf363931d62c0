"""Register the console with Django: templates, static files and template tags."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "punctual.console"
    label = "punctual_console"
    verbose_name = "Punctual console"
