"""The Celery application that beats, workers and Flower share."""

import os
from collections.abc import MutableMapping

import click
from celery import Celery, signals

from scheduler_project import environment, excepthook, flower, inspection

# click reads the defaults of Celery's `--loglevel` options from these variables.
LOG_LEVEL_VARIABLES = ("CELERY_BEAT_LOGLEVEL", "CELERY_WORKER_LOGLEVEL")


def apply_log_level(env: MutableMapping[str, str]) -> None:
    """Make LOG_LEVEL the default of `celery beat` and `celery worker` (OPS-6).

    Celery's own default is WARNING and replaces the level of the settings, so most events would not be
    logged. Only the program `celery` sets the variables: children of other programs read LOG_LEVEL.
    """
    if click.get_current_context(silent=True) is not None:
        for variable in LOG_LEVEL_VARIABLES:
            env.setdefault(variable, environment.log_level(env))


excepthook.install()
flower.configure()
apply_log_level(os.environ)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")

app = Celery("punctual")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
signals.worker_init.connect(inspection.install)
