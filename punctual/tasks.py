"""Celery finds the platform's messages here: the module `tasks` of an installed app."""

from punctual.execution.worker.tasks import run, settle

__all__ = ["run", "settle"]
