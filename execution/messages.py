"""Runs and occurrences → Celery messages. A message's id is the attempt it will start."""

from typing import Any
from uuid import UUID

from celery import Signature, current_app

from jobs.durations import duration
from occurrences.ids import attempt_id
from occurrences.models import TaskRun

RUN = "punctual.run"
SETTLE = "punctual.settle"
HARD_LIMIT_MARGIN = 5.0  # seconds between asking a stuck task to stop and killing its process


def run_message(run: TaskRun) -> "Signature[Any]":
    limit = duration(run.policy["task_timeout"]).total_seconds()
    return current_app.signature(RUN, args=([str(run.id)],), immutable=True).set(
        task_id=str(attempt_id(run.id, run.attempts_made)),
        queue=run.policy["queue"],
        soft_time_limit=limit,
        time_limit=limit + HARD_LIMIT_MARGIN,
        # What Flower and the worker's log show instead of bare ids (OPS-5).
        argsrepr=label(run, run.task.name),
        kwargsrepr="{}",
    )


def settle_message(occurrence_id: UUID) -> "Signature[Any]":
    return current_app.signature(SETTLE, args=(str(occurrence_id),), immutable=True)


def label(run: TaskRun, step: str) -> str:
    occurrence = run.occurrence
    return f"({occurrence.job.name} / {step} / {occurrence.scheduled_for:%Y-%m-%dT%H:%M:%SZ})"
