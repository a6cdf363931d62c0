"""PostgreSQL: the usual road of a run, one statement a step; here its claim (`swift_endings` has its end).

These are the moves `transitions` makes row by row for every database, put together: the same guards, the
same columns, one round trip, planned once and committed at once. A run costs a worker two of them, and so
does a bundle of fifty. What is unusual comes back empty-handed and takes the general road. Only
`transitions` calls this module.

Within a statement PostgreSQL decides the order of its parts, except where one part reads from another: so
every part that locks a run reads from the part that locks its occurrence first, as everywhere.

One run and many have statements of their own: asked for "any of these", PostgreSQL would plan each call
anew, for it cannot tell how many they are, and planning takes longer than the rest.
"""

# ruff: noqa: S608 - put together from our own constants; every value is a parameter
from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from punctual.occurrences.database.arrays import array_literal
from punctual.occurrences.database.prepared_statements import fetch_rows
from punctual.occurrences.database.vendor import is_postgresql
from punctual.occurrences.states import OCCURRENCE_ACTIVE, AttemptState, OccurrenceState, RunState

S, R, A = OccurrenceState, RunState, AttemptState
ACTIVE = ", ".join(f"'{state.value}'" for state in OCCURRENCE_ACTIVE)


class Columns(NamedTuple):
    """What a claim brings along; whatever else of the rows is asked for later is read then."""

    run: tuple[str, ...]
    task: tuple[str, ...]
    occurrence: tuple[str, ...]
    job: tuple[str, ...]


def at(column: str) -> str:
    """A state that is asked for, but not looked up: the rows are found by their ids. The indexes of what is
    open are short most of the time, so the planner would read one from end to end, in a backlog as well."""
    return f"({column} || '')"


def usable() -> bool:
    return is_postgresql(connection)


STARTED = ("state", "started_at", "deadline_at")
START = f"""state = '{S.RUNNING.value}', started_at = %(now)s,
            deadline_at = %(now)s + occurrence.execution_timeout"""
HOLD = "claim_token = %(token)s, claimed_by = %(worker)s, lease_until = %(lease)s, heartbeat_at = %(now)s"


def claim_one_sql(columns: Columns) -> str:
    """scheduled → claimed → running, with its attempt; its occurrence started.

    A run that another worker takes in the same moment drops out by its guard, which looks at the row as
    it is once its lock is ours. Its occurrence has then been started by that other claim.
    """
    return f"""
    WITH wanted AS MATERIALIZED (
        SELECT run.id, run.occurrence_id, occurrence.state AS phase
        FROM punctual_taskrun run
        JOIN punctual_occurrence occurrence ON occurrence.id = run.occurrence_id
        WHERE run.id = %(id)s AND {at("run.state")} = '{R.SCHEDULED.value}' AND run.available_at <= %(now)s
        AND {at("occurrence.state")} IN ({ACTIVE}) AND run.attempts_made < 2
    ), started AS (
        UPDATE punctual_occurrence occurrence
        SET {START}
        FROM wanted
        WHERE occurrence.id = wanted.occurrence_id AND wanted.phase = '{S.DISPATCHED.value}'
        AND {at("occurrence.state")} = '{S.DISPATCHED.value}'
        RETURNING occurrence.id, occurrence.state, occurrence.started_at, occurrence.deadline_at
    ), held AS (
        UPDATE punctual_taskrun run
        SET state = '{R.RUNNING.value}', {HOLD}, started_at = %(now)s, attempts_made = run.attempts_made + 1
        FROM wanted
        WHERE run.id = wanted.id AND {at("run.state")} = '{R.SCHEDULED.value}'
        AND run.available_at <= %(now)s AND (SELECT count(*) FROM started) >= 0
        RETURNING {", ".join(f"run.{name}" for name in columns.run)}
    ), opened AS (
        INSERT INTO punctual_attempt
            (id, run_id, number, state, worker, started_at, error_type, error, traceback, log)
        SELECT CASE held.attempts_made WHEN 1 THEN %(first)s ELSE %(second)s END, held.id,
            held.attempts_made - 1, '{A.RUNNING.value}', %(worker)s::text, %(now)s, '', '', '', ''
        FROM held
    )
    {_brought(columns)}
    """


def claim_many_sql(columns: Columns) -> str:
    """scheduled → claimed for all of a bundle; their occurrences started."""
    return f"""
    WITH named AS MATERIALIZED (
        SELECT id, occurrence_id, state, available_at
        FROM punctual_taskrun WHERE id = ANY(%(ids)s::uuid[])
    ), wanted AS MATERIALIZED (
        SELECT named.id, named.occurrence_id, occurrence.state AS phase
        FROM named JOIN punctual_occurrence occurrence ON occurrence.id = named.occurrence_id
        WHERE named.state = '{R.SCHEDULED.value}' AND named.available_at <= %(now)s
        AND {at("occurrence.state")} IN ({ACTIVE})
    ), locked AS (
        SELECT id FROM punctual_occurrence
        WHERE id IN (SELECT occurrence_id FROM wanted WHERE phase = '{S.DISPATCHED.value}')
        AND {at("state")} = '{S.DISPATCHED.value}'
        ORDER BY id FOR NO KEY UPDATE
    ), started AS (
        UPDATE punctual_occurrence occurrence
        SET {START}
        FROM locked
        WHERE occurrence.id = locked.id AND {at("occurrence.state")} = '{S.DISPATCHED.value}'
        RETURNING occurrence.id, occurrence.state, occurrence.started_at, occurrence.deadline_at
    ), held AS (
        UPDATE punctual_taskrun run
        SET state = '{R.CLAIMED.value}', {HOLD}
        FROM wanted
        WHERE run.id = wanted.id AND {at("run.state")} = '{R.SCHEDULED.value}'
        AND run.available_at <= %(now)s AND (SELECT count(*) FROM started) >= 0
        RETURNING {", ".join(f"run.{name}" for name in columns.run)}
    )
    {_brought(columns)}
    """


def _brought(columns: Columns) -> str:
    """What was claimed, whether that started its occurrence, and whether it is its occurrence's only run."""
    shown = [
        *(f"held.{name}" for name in columns.run),
        *(f"task.{name}" for name in columns.task),
        *(
            f"COALESCE(started.{name}, occurrence.{name})" if name in STARTED else f"occurrence.{name}"
            for name in columns.occurrence
        ),
        *(f"job.{name}" for name in columns.job),
    ]
    return f"""
    SELECT {", ".join(shown)}, started.id IS NOT NULL,
        NOT EXISTS (SELECT FROM punctual_taskrun other
                    WHERE other.occurrence_id = held.occurrence_id AND other.id <> held.id)
    FROM held
    JOIN punctual_task task ON task.id = held.task_id
    JOIN punctual_occurrence occurrence ON occurrence.id = held.occurrence_id
    JOIN punctual_job job ON job.id = occurrence.job_id
    LEFT JOIN started ON started.id = occurrence.id
    """


class Take(NamedTuple):
    """As whose a run is claimed, and until when."""

    token: UUID
    worker: str
    now: datetime
    lease: datetime


FORESEEN = 2  # attempts a claim of one run has ids for; one that was made oftener takes the general road


def claim_one(sql: str, take: Take, *, id_: UUID, attempts: tuple[UUID, UUID]) -> list[tuple[Any, ...]]:
    """`attempts` are the ids its attempts 0 and 1 have."""
    return fetch_rows(sql, {**take._asdict(), "id": id_, "first": attempts[0], "second": attempts[1]})


def claim_many(sql: str, take: Take, *, ids: Collection[UUID]) -> list[tuple[Any, ...]]:
    return fetch_rows(sql, {**take._asdict(), "ids": array_literal(ids)})
