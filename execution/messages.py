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


def run_message(run: TaskRun, *, in_chord: bool = False) -> "Signature[Any]":
    limit = duration(run.policy["task_timeout"]).total_seconds()
    options = {
        "task_id": str(attempt_id(run.id, run.attempts_made)),
        "queue": run.policy["queue"],
        "soft_time_limit": limit,
        "time_limit": limit + HARD_LIMIT_MARGIN,
        "ignore_result": not in_chord,  # a chord counts the results of its members
        # What Flower and the worker's log show instead of bare ids (OPS-5).
        "argsrepr": label(run, run.task.name),
        "kwargsrepr": "{}",
    }
    return _signature(RUN, [str(run.id)], **options)


def settle_message(occurrence_id: UUID, shown: str = "") -> "Signature[Any]":
    # Without ignore_result the sender subscribes to a result nobody will read.
    options = {"ignore_result": True, "argsrepr": shown or f"({occurrence_id})"}
    return _signature(SETTLE, str(occurrence_id), **options)


def _signature(name: str, argument: object, **options: Any) -> "Signature[Any]":
    return current_app.signature(name, args=(argument,), options=options, immutable=True)


def label(run: TaskRun, step: str) -> str:
    occurrence = run.occurrence
    return f"({occurrence.job.name} / {step} / {occurrence.scheduled_for:%Y-%m-%dT%H:%M:%SZ})"
