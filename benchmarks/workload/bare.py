"""Bare Celery in the same Django project: its own defaults, results in the same Redis."""

import os

from celery import Celery

from benchmarks.workload.starts import noted

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")

app = Celery("bare", broker=os.environ["BROKER_URL"], backend=os.environ["BROKER_URL"])
app.conf.task_default_queue = "bare"
app.conf.broker_connection_retry_on_startup = True


@app.task
def noop() -> None: ...


@app.task
def note() -> None:
    noted()


@app.task
def gathered(results: list[None]) -> int:
    return len(results)
