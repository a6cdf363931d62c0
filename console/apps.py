"""Registers the `console` package with Django."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "console"
