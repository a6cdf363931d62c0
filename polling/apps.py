"""Registers the `polling` package with Django."""

from django.apps import AppConfig


class PollingConfig(AppConfig):
    name = "polling"
