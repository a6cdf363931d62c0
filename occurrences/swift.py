"""PostgreSQL: the usual road of a run, one statement a step: claimed, then completed with its occurrence.

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
from collections.abc import Collection, Sequence
from datetime import datetime
from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection, connections

from occurrences.arrays import literal
from occurrences.states import OCCURRENCE_ACTIVE, AttemptState, OccurrenceState, RunState

if TYPE_CHECKING:
    from psycopg import Cursor

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
    return connection.vendor == "postgresql"


# -- claims ----------------------------------------------------------------------------------------

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
        FROM occurrences_taskrun run
        JOIN occurrences_occurrence occurrence ON occurrence.id = run.occurrence_id
        WHERE run.id = %(id)s AND {at("run.state")} = '{R.SCHEDULED.value}' AND run.available_at <= %(now)s
        AND {at("occurrence.state")} IN ({ACTIVE}) AND run.attempts_made < 2
    ), started AS (
        UPDATE occurrences_occurrence occurrence
        SET {START}
        FROM wanted
        WHERE occurrence.id = wanted.occurrence_id AND wanted.phase = '{S.DISPATCHED.value}'
        AND {at("occurrence.state")} = '{S.DISPATCHED.value}'
        RETURNING occurrence.id, occurrence.state, occurrence.started_at, occurrence.deadline_at
    ), held AS (
        UPDATE occurrences_taskrun run
        SET state = '{R.RUNNING.value}', {HOLD}, started_at = %(now)s, attempts_made = run.attempts_made + 1
        FROM wanted
        WHERE run.id = wanted.id AND {at("run.state")} = '{R.SCHEDULED.value}'
        AND run.available_at <= %(now)s AND (SELECT count(*) FROM started) >= 0
        RETURNING {", ".join(f"run.{name}" for name in columns.run)}
    ), opened AS (
        INSERT INTO occurrences_attempt
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
        FROM occurrences_taskrun WHERE id = ANY(%(ids)s::uuid[])
    ), wanted AS MATERIALIZED (
        SELECT named.id, named.occurrence_id, occurrence.state AS phase
        FROM named JOIN occurrences_occurrence occurrence ON occurrence.id = named.occurrence_id
        WHERE named.state = '{R.SCHEDULED.value}' AND named.available_at <= %(now)s
        AND {at("occurrence.state")} IN ({ACTIVE})
    ), locked AS (
        SELECT id FROM occurrences_occurrence
        WHERE id IN (SELECT occurrence_id FROM wanted WHERE phase = '{S.DISPATCHED.value}')
        AND {at("state")} = '{S.DISPATCHED.value}'
        ORDER BY id FOR NO KEY UPDATE
    ), started AS (
        UPDATE occurrences_occurrence occurrence
        SET {START}
        FROM locked
        WHERE occurrence.id = locked.id AND {at("occurrence.state")} = '{S.DISPATCHED.value}'
        RETURNING occurrence.id, occurrence.state, occurrence.started_at, occurrence.deadline_at
    ), held AS (
        UPDATE occurrences_taskrun run
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
        NOT EXISTS (SELECT FROM occurrences_taskrun other
                    WHERE other.occurrence_id = held.occurrence_id AND other.id <> held.id)
    FROM held
    JOIN jobs_task task ON task.id = held.task_id
    JOIN occurrences_occurrence occurrence ON occurrence.id = held.occurrence_id
    JOIN jobs_job job ON job.id = occurrence.job_id
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
    return _rows(sql, {**take._asdict(), "id": id_, "first": attempts[0], "second": attempts[1]})


def claim_many(sql: str, take: Take, *, ids: Collection[UUID]) -> list[tuple[Any, ...]]:
    return _rows(sql, {**take._asdict(), "ids": literal(ids)})


# -- completions -----------------------------------------------------------------------------------


class Completion(NamedTuple):
    """A success that ends its occurrence: the run has no neighbours."""

    run: UUID
    occurrence: UUID
    token: UUID
    attempt: UUID
    number: int
    started_at: datetime
    finalized: bool  # owes no hook
    report: str  # JSON


ENDED = f"""state = '{R.SUCCESS.value}', finished_at = %(now)s, error = '', claim_token = NULL,
            lease_until = NULL"""
CLOSED = f"state = '{S.COMPLETED.value}', finished_at = %(now)s, reason = ''"
# The answer: what was closed, and whether somebody waits for its job or in its pool.
ANSWER = f"""
    SELECT closed.id, EXISTS (
        SELECT FROM occurrences_occurrence waiting
        WHERE waiting.state = '{S.QUEUED.value}' AND waiting.job_id = closed.job_id
    ) OR EXISTS (
        SELECT FROM occurrences_occurrence waiting
        WHERE waiting.state = '{S.QUEUED.value}' AND waiting.pool = closed.pool
    )
    FROM closed
    """

# running → success, its attempt, and its occurrence → completed.
COMPLETE_ONE = f"""
    WITH locked AS MATERIALIZED (
        SELECT id FROM occurrences_occurrence
        WHERE id = %(occurrence)s AND {at("state")} IN ({ACTIVE})
        FOR NO KEY UPDATE
    ), ended AS (
        UPDATE occurrences_taskrun run
        SET {ENDED}
        FROM locked
        WHERE run.id = %(run)s AND {at("run.state")} = '{R.RUNNING.value}' AND run.claim_token = %(token)s
        RETURNING run.id
    ), attempts AS (
        UPDATE occurrences_attempt attempt
        SET state = '{A.SUCCESS.value}', finished_at = %(now)s
        FROM ended
        WHERE attempt.id = %(attempt)s AND {at("attempt.state")} = '{A.RUNNING.value}'
    ), closed AS (
        UPDATE occurrences_occurrence occurrence
        SET {CLOSED}, report = %(report)s::jsonb,
            finalized_at = CASE WHEN %(finalized)s THEN %(now)s END
        FROM ended
        WHERE occurrence.id = %(occurrence)s AND {at("occurrence.state")} IN ({ACTIVE})
        RETURNING occurrence.id, occurrence.job_id, occurrence.pool
    )
    {ANSWER}
    """

# claimed → running → success for those whose attempt is no row yet, running → success for the others.
COMPLETE_MANY = f"""
    WITH given AS MATERIALIZED (
        SELECT run, occurrence, attempt, number, started_at, finalized, report
        FROM unnest(%(runs)s::uuid[], %(occurrences)s::uuid[], %(attempts)s::uuid[], %(numbers)s::int[],
                    %(started)s::timestamptz[], %(finalized)s::bool[])
            WITH ORDINALITY AS given (run, occurrence, attempt, number, started_at, finalized, place)
        -- One document for all: an array of texts would have to be escaped, sign by sign.
        JOIN jsonb_array_elements(%(reports)s::jsonb) WITH ORDINALITY AS reports (report, place) USING (place)
    ), locked AS (
        SELECT id FROM occurrences_occurrence
        WHERE id = ANY(%(occurrences)s::uuid[]) AND {at("state")} IN ({ACTIVE})
        ORDER BY id FOR NO KEY UPDATE
    ), ended AS (
        UPDATE occurrences_taskrun run
        SET {ENDED}, started_at = given.started_at, attempts_made = given.number + 1
        FROM given JOIN locked ON locked.id = given.occurrence
        WHERE run.id = given.run AND {at("run.state")} IN ('{R.CLAIMED.value}', '{R.RUNNING.value}')
        AND run.claim_token = %(token)s
        RETURNING run.id, run.occurrence_id, run.claimed_by, given.attempt, given.number, given.started_at,
            given.report, given.finalized
    ), attempts AS (
        INSERT INTO occurrences_attempt AS attempt (id, run_id, number, state, worker, started_at,
            finished_at, error_type, error, traceback, log)
        SELECT ended.attempt, ended.id, ended.number, '{A.SUCCESS.value}', ended.claimed_by, ended.started_at,
            %(now)s, '', '', '', ''
        FROM ended
        ON CONFLICT (id) DO UPDATE SET state = '{A.SUCCESS.value}', finished_at = %(now)s
        WHERE {at("attempt.state")} = '{A.RUNNING.value}'
    ), closed AS (
        UPDATE occurrences_occurrence occurrence
        SET {CLOSED}, report = ended.report, finalized_at = CASE WHEN ended.finalized THEN %(now)s END
        FROM ended
        WHERE occurrence.id = ended.occurrence_id AND {at("occurrence.state")} IN ({ACTIVE})
        RETURNING occurrence.id, occurrence.job_id, occurrence.pool
    )
    {ANSWER}
    """


def complete_one(item: Completion, *, now: datetime) -> dict[UUID, bool]:
    """Its occurrence, if it was closed; true where somebody may wait for that. Its attempt is a row."""
    return dict(_rows(COMPLETE_ONE, {**item._asdict(), "now": now}))


def complete_many(items: Sequence[Completion], *, now: datetime) -> dict[UUID, bool]:
    """The same for runs held under one token, whether their attempts are rows already or not."""
    facts = {
        "runs": literal(item.run for item in items),
        "occurrences": literal(item.occurrence for item in items),
        "attempts": literal(item.attempt for item in items),
        "numbers": literal(item.number for item in items),
        "started": literal(f'"{item.started_at}"' for item in items),
        "finalized": literal(item.finalized for item in items),
        "reports": f"[{','.join(item.report for item in items)}]",
    }
    return dict(_rows(COMPLETE_MANY, {**facts, "token": items[0].token, "now": now}))


def _rows(sql: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connections[DEFAULT_DB_ALIAS].wrap_database_errors:
        return _cursor().execute(sql, parameters).fetchall()


_own = local()


def _cursor() -> "Cursor[tuple[Any, ...]]":
    """Not Django's: that one sends the values inside the text, so that every call is planned anew. Kept with
    its connection: making one takes as long as the rest of a call."""
    held: Any = connections[DEFAULT_DB_ALIAS]  # `connection` would look it up at each word
    held.validate_no_broken_transaction()
    held.close_if_health_check_failed()
    held.ensure_connection()
    if getattr(_own, "connection", None) is not held.connection:
        from psycopg import Cursor  # noqa: PLC0415 - not there on SQLite alone
        from psycopg.rows import tuple_row  # noqa: PLC0415

        _own.connection, _own.cursor = held.connection, Cursor(held.connection, row_factory=tuple_row)
    cursor: Cursor[tuple[Any, ...]] = _own.cursor
    return cursor
