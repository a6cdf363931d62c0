"""Registers the `execution` package with Django, and with the life cycle of Celery's workers."""

from django.apps import AppConfig
from django.core.checks import register


class ExecutionConfig(AppConfig):
    name = "execution"

    def ready(self) -> None:
        from execution import checks, worker

        worker.connect()
        register(checks.check_worker_settings, "punctual")
