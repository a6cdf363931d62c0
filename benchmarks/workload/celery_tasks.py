"""Bare Celery in the same Django project: its own defaults, results in the same Redis."""

import os

from celery import Celery

from benchmarks.workload.start_times import note_start

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")

app = Celery("bare", broker=os.environ["BROKER_URL"], backend=os.environ["BROKER_URL"])
app.conf.task_default_queue = "bare"
app.conf.broker_connection_retry_on_startup = True


@app.task
def noop() -> None: ...


@app.task
def note() -> None:
    note_start()


@app.task
def count_results(results: list[None]) -> int:
    return len(results)
