"""Celery finds the platform's messages here: the module `tasks` of an installed app."""

from punctual.execution.worker.work import run
from punctual.execution.worker.work import settle_occurrence as settle

__all__ = ["run", "settle"]
