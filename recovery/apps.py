"""Registers the `recovery` package with Django."""

from django.apps import AppConfig


class RecoveryConfig(AppConfig):
    name = "recovery"
