"""Registers the package with Django and discovers modules named `jobs` in installed apps."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        autodiscover_modules("jobs")
