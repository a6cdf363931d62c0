"""The project's settings with an entry in Celery's `beat_schedule`."""

from scheduler_project.settings import *  # noqa: F403 - that is how one derives settings

CELERY_BEAT_SCHEDULE = {"ping": {"task": "cluster.ping", "schedule": 2.0}}
