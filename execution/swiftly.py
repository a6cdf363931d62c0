"""PostgreSQL's one-statement steps, spoken in models: run ids → claimed runs; successes → occurrences closed.

Only for the usual case; who asks falls back to the general road for everything else.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import JSONField, Model

from jobs.models import Job, Task
from occurrences import transitions
from occurrences.ids import attempt_id
from occurrences.models import Occurrence, TaskRun
from occurrences.swift import Columns, Take, claim_sql

FORESEEN = 4  # attempts of the first run of a message; one that was made oftener takes the general road
# What calling a function and reporting its success needs; any other column can be had for a query.
NEEDED: dict[type[Model], set[str]] = {
    TaskRun: {
        *("id", "occurrence_id", "task_id", "position", "state", "reason", "policy", "attempts_made"),
        *("snoozes", "claim_token", "claimed_by", "lease_until", "heartbeat_at", "started_at", "error"),
    },
    Task: {"id", "job_id", "name", "function"},
    Occurrence: {
        *("id", "job_id", "job_version", "cause", "scheduled_for", "run_at", "state", "pool", "config"),
        *("args", "covers", "started_at", "deadline_at"),
    },
    Job: {"id", "name", "metadata"},
}


class Held(NamedTuple):
    run: TaskRun
    started: bool  # its occurrence, by this claim
    alone: bool  # it is its occurrence's only run


def claim(
    run_ids: Sequence[UUID], *, token: UUID, worker: str, now: datetime, lease: timedelta
) -> list[Held]:
    """In the order of the message. The first has begun if it is the message's first."""
    attempts = [attempt_id(run_ids[0], number) for number in range(FORESEEN)]
    take = Take(list(run_ids), run_ids[0], attempts, token, worker, now, now + lease)
    rows = transitions.swift_claim(_claim_sql(), take)
    places = {id_: place for place, id_ in enumerate(run_ids)}
    return sorted(map(_held, rows), key=lambda item: places[item.run.id])


def _held(row: tuple[Any, ...]) -> Held:
    values = iter(row)
    run, task, occurrence, job = (_model(model, values) for model in (TaskRun, Task, Occurrence, Job))
    run.task, run.occurrence, occurrence.job = task, occurrence, job
    return Held(run, next(values), next(values))


def _model(model: Any, values: Iterator[Any]) -> Any:
    names, documents = _columns(model)
    taken = list(islice(values, len(names)))
    for index in documents:
        if isinstance(taken[index], str):
            taken[index] = json.loads(taken[index])
    return model.from_db("default", names, taken)


@cache
def _columns(model: type[Model]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Their names as the model orders them, and which of them hold JSON."""
    fields = [field for field in model._meta.concrete_fields if field.attname in NEEDED[model]]
    documents = tuple(index for index, field in enumerate(fields) if isinstance(field, JSONField))
    return tuple(field.attname for field in fields), documents


@cache
def _claim_sql() -> str:
    return claim_sql(Columns(*(_columns(model)[0] for model in (TaskRun, Task, Occurrence, Job))))
