"""Registers the `execution` package with Django."""

from django.apps import AppConfig


class ExecutionConfig(AppConfig):
    name = "execution"
