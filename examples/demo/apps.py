"""Register the demo with Django, so that its jobs are discovered."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "examples.demo"
