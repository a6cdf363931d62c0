"""Registers the `beat` package with Django."""

from django.apps import AppConfig


class BeatConfig(AppConfig):
    name = "beat"
