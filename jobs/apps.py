"""Registers the `jobs` package with Django."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
