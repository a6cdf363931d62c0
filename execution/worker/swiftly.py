"""Call PostgreSQL's one-statement steps and turn their rows into models.

Only for the usual case; who asks falls back to the general road for everything else.
"""

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from punctual.jobs.models import Job, Task
from punctual.occurrences import transitions
from punctual.occurrences.database.filled import filled
from punctual.occurrences.ids import attempt_id
from punctual.occurrences.last_out import last_out as asked
from punctual.occurrences.last_out import last_out_sql
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState
from punctual.occurrences.swift import STARTED, Columns, Take, claim_many_sql, claim_one_sql

# What calling a function and reporting its success needs; any other column can be had for a query.
RUN = (
    *("id", "occurrence_id", "task_id", "position", "state", "reason", "policy", "attempts_made"),
    *("snoozes", "claim_token", "claimed_by", "lease_until", "heartbeat_at", "started_at", "error"),
)
TASK = ("id", "job_id", "name", "function")
OCCURRENCE = (
    *("id", "job_id", "job_version", "cause", "scheduled_for", "run_at", "state", "pool", "config"),
    *("args", "covers", "started_at", "deadline_at"),
)
JOB = ("id", "name", "metadata")
AT_TASK = len(RUN)
AT_OCCURRENCE = AT_TASK + len(TASK)
AT_JOB = AT_OCCURRENCE + len(OCCURRENCE)
END = AT_JOB + len(JOB)
# What a report says of a run.
TOLD = (
    *("id", "occurrence_id", "position", "state", "reason", "policy", "attempts_made", "started_at"),
    *("finished_at", "error"),
)
LAST_OUT = last_out_sql((*(f"run.{name}" for name in TOLD), "task.name"))
TOLD_POLICY = TOLD.index("policy")


class Held(NamedTuple):
    run: TaskRun
    started: bool  # its occurrence, by this claim
    alone: bool  # it is its occurrence's only run


def claim(
    run_ids: Sequence[UUID], *, token: UUID, worker: str, now: datetime, lease: timedelta
) -> list[Held]:
    """In the order of the message. The only run of a message has begun, those of a bundle have not."""
    take = Take(token, worker, now, now + lease)
    if len(run_ids) == 1:
        attempts = attempt_id(run_ids[0], 0), attempt_id(run_ids[0], 1)
        rows = transitions.swift_claim_one(_sql(claim_one_sql), take, id_=run_ids[0], attempts=attempts)
        return _as_started([_held(row) for row in rows])
    rows = transitions.swift_claim_many(_sql(claim_many_sql), take, ids=run_ids)
    places = {id_: place for place, id_ in enumerate(run_ids)}
    return _as_started(sorted(map(_held, rows), key=lambda item: places[item.run.id]))


def _as_started(held: list[Held]) -> list[Held]:
    """A neighbour's claim may have started one in this very moment: what was read is from before."""
    stale = [item.run.occurrence for item in held if item.run.occurrence.state == OccurrenceState.DISPATCHED]
    if stale:
        rows = Occurrence.objects.filter(id__in={row.id for row in stale}).values("id", *STARTED)
        found = {row["id"]: row for row in rows}
        for row in stale:
            vars(row).update(found[row.id])
    return held


def _held(row: tuple[Any, ...]) -> Held:
    job = filled(Job, JOB, (*row[AT_JOB : END - 1], _own(row[END - 1])))
    values = [*row[AT_OCCURRENCE:AT_JOB]]
    for place, read in DOCUMENTS:
        values[place] = read(values[place])
    occurrence = filled(Occurrence, OCCURRENCE, values, {"job": job})
    task = filled(Task, TASK, row[AT_TASK:AT_OCCURRENCE])
    values = [*row[:AT_TASK]]
    values[POLICY] = _shared(values[POLICY])
    run = filled(TaskRun, RUN, values, {"task": task, "occurrence": occurrence})
    return Held(run, row[END], row[END + 1])


def last_out(ids: Collection[UUID]) -> dict[UUID, list[TaskRun]]:
    """Of occurrences where nothing moves any more: their runs, in order."""
    found: dict[UUID, list[TaskRun]] = {}
    for *values, name in asked(LAST_OUT, ids):
        values[TOLD_POLICY] = _shared(values[TOLD_POLICY])
        run = filled(TaskRun, TOLD, values, {"task": filled(Task, ("name",), (name,))})
        found.setdefault(run.occurrence_id, []).append(run)
    return found


@lru_cache(maxsize=1024)
def _shared(document: str) -> Any:
    """Configurations are never changed, and most of a batch are the same few."""
    return json.loads(document)


def _own(document: str | None) -> Any:
    """What a function is given is its own to change."""
    if document is None:
        return None
    return {} if document == "{}" else json.loads(document)


POLICY = RUN.index("policy")
DOCUMENTS = tuple(
    (OCCURRENCE.index(name), read) for name, read in (("config", _shared), ("args", _own), ("covers", _own))
)


@cache
def _sql(made_by: Any) -> str:
    statement: str = made_by(Columns(RUN, TASK, OCCURRENCE, JOB))
    return statement
