"""Registers the `occurrences` package with Django."""

from django.apps import AppConfig


class OccurrencesConfig(AppConfig):
    name = "occurrences"
