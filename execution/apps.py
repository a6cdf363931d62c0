"""Registers the `execution` package with Django, and with the life cycle of Celery's workers."""

from django.apps import AppConfig


class ExecutionConfig(AppConfig):
    name = "execution"

    def ready(self) -> None:
        from execution import worker

        worker.connect()
