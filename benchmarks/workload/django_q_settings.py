"""The project's settings with django-q2: queue in the same Redis, results in the same PostgreSQL."""

import os

from scheduler_project.settings import *  # noqa: F403 - a settings module
from scheduler_project.settings import INSTALLED_APPS as OURS

INSTALLED_APPS = [*OURS, "django_q"]
Q_CLUSTER = {
    "name": "bench",
    "workers": 2,
    "timeout": 60,
    "retry": 120,
    "save_limit": 0,
    "redis": os.environ["BROKER_URL"].replace("redis+socket", "unix"),
}
