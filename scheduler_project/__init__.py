"""The composition root: settings, Celery application, URLs and the `up` command."""

from scheduler_project.celery import app as celery_app

__all__ = ["celery_app"]
