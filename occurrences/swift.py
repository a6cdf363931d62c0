"""PostgreSQL: the usual road of a run, one statement a step: claimed, begun, completed with its occurrence.

These are the moves `transitions` makes row by row for every database, put together: the same guards, the
same columns, one round trip, planned once and committed at once. A no-op costs a worker two of them. What
is unusual comes back empty-handed and takes the general road. Only `transitions` calls this module.

Within a statement PostgreSQL decides the order of its parts, except where one part reads from another: so
every part that locks a run reads from the part that locks its occurrence first, as everywhere.
"""

# ruff: noqa: S608 - put together from our own constants; every value is a parameter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.db import connection

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


def claim_sql(columns: Columns) -> str:
    """scheduled → claimed for all, → running with its attempt for the first; their occurrences started.

    A run that another worker takes in the same moment drops out by its guard, which looks at the row as
    it is once its lock is ours. Its occurrence has then been started by that other claim.
    """
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
    WITH named AS MATERIALIZED (
        SELECT id, occurrence_id, state, available_at, attempts_made
        FROM occurrences_taskrun WHERE id = ANY(%(ids)s)
    ), wanted AS MATERIALIZED (
        SELECT named.id, named.occurrence_id, occurrence.state AS phase
        FROM named JOIN occurrences_occurrence occurrence ON occurrence.id = named.occurrence_id
        WHERE named.state = '{R.SCHEDULED.value}' AND named.available_at <= %(now)s
        AND {at("occurrence.state")} IN ({ACTIVE})
        AND (named.id <> %(first)s OR named.attempts_made < cardinality(%(attempts)s))
    ), locked AS (
        SELECT id FROM occurrences_occurrence
        WHERE id IN (SELECT occurrence_id FROM wanted WHERE phase = '{S.DISPATCHED.value}')
        AND {at("state")} = '{S.DISPATCHED.value}'
        ORDER BY id FOR NO KEY UPDATE
    ), started AS (
        UPDATE occurrences_occurrence occurrence
        SET state = '{S.RUNNING.value}', started_at = %(now)s,
            deadline_at = %(now)s + occurrence.execution_timeout
        FROM locked
        WHERE occurrence.id = locked.id AND {at("occurrence.state")} = '{S.DISPATCHED.value}'
        RETURNING occurrence.id, occurrence.state, occurrence.started_at, occurrence.deadline_at
    ), held AS (
        UPDATE occurrences_taskrun run
        SET state = CASE run.id WHEN %(first)s THEN '{R.RUNNING.value}' ELSE '{R.CLAIMED.value}' END,
            claim_token = %(token)s, claimed_by = %(worker)s, lease_until = %(lease)s, heartbeat_at = %(now)s,
            started_at = CASE run.id WHEN %(first)s THEN %(now)s ELSE run.started_at END,
            attempts_made = run.attempts_made + CASE run.id WHEN %(first)s THEN 1 ELSE 0 END
        FROM wanted
        WHERE run.id = wanted.id AND {at("run.state")} = '{R.SCHEDULED.value}'
        AND run.available_at <= %(now)s
        AND (SELECT count(*) FROM started) >= 0
        RETURNING {", ".join(f"run.{name}" for name in columns.run)}
    ), opened AS (
        INSERT INTO occurrences_attempt
            (id, run_id, number, state, worker, started_at, error_type, error, traceback, log)
        SELECT (%(attempts)s)[held.attempts_made], held.id, held.attempts_made - 1, '{A.RUNNING.value}',
            %(worker)s::text, %(now)s, '', '', '', ''
        FROM held WHERE held.state = '{R.RUNNING.value}'
    )
    SELECT {", ".join(shown)}, started.id IS NOT NULL,
        NOT EXISTS (SELECT FROM occurrences_taskrun other
                    WHERE other.occurrence_id = held.occurrence_id AND other.id <> held.id)
    FROM held
    JOIN jobs_task task ON task.id = held.task_id
    JOIN occurrences_occurrence occurrence ON occurrence.id = held.occurrence_id
    JOIN jobs_job job ON job.id = occurrence.job_id
    LEFT JOIN started ON started.id = occurrence.id
    """


STARTED = ("state", "started_at", "deadline_at")

# claimed → running, with its attempt. That a start is on disk is not waited for: should the server crash
# and forget it, the report finds no running run, and the run is started again; a crash of ours loses nothing.
BEGIN = f"""
    WITH quickly AS (SELECT set_config('synchronous_commit', 'off', true)), begun AS (
        UPDATE occurrences_taskrun
        SET state = '{R.RUNNING.value}', heartbeat_at = %(now)s, started_at = %(now)s,
            attempts_made = attempts_made + 1
        WHERE id = %(id)s AND {at("state")} = '{R.CLAIMED.value}' AND claim_token = %(token)s
        AND lease_until > %(now)s AND (SELECT count(*) FROM quickly) = 1
        RETURNING id
    )
    INSERT INTO occurrences_attempt
        (id, run_id, number, state, worker, started_at, error_type, error, traceback, log)
    SELECT %(attempt)s, begun.id, %(number)s, '{A.RUNNING.value}', %(worker)s::text, %(now)s, '', '', '', ''
    FROM begun
    """

# running → success, its attempt, and its occurrence → completed; for occurrences that have no other run.
# The answer: what was closed, and whether somebody waits for its job or in its pool.
COMPLETE = f"""
    WITH given AS (
        SELECT run, occurrence, token, finalized, report
        FROM unnest(%(runs)s, %(occurrences)s, %(tokens)s, %(finalized)s::bool[])
            WITH ORDINALITY AS given (run, occurrence, token, finalized, place)
        -- One document for all: an array of texts would have to be escaped, sign by sign.
        JOIN jsonb_array_elements(%(reports)s::jsonb) WITH ORDINALITY AS reports (report, place) USING (place)
    ), locked AS (
        SELECT id FROM occurrences_occurrence
        WHERE id = ANY(%(occurrences)s) AND {at("state")} IN ({ACTIVE})
        ORDER BY id FOR NO KEY UPDATE
    ), ended AS (
        UPDATE occurrences_taskrun run
        SET state = '{R.SUCCESS.value}', finished_at = %(now)s, error = '', claim_token = NULL,
            lease_until = NULL
        FROM given JOIN locked ON locked.id = given.occurrence
        WHERE run.id = given.run AND {at("run.state")} = '{R.RUNNING.value}'
        AND run.claim_token = given.token
        RETURNING run.id, run.occurrence_id, given.report, given.finalized
    ), attempts AS (
        UPDATE occurrences_attempt attempt
        SET state = '{A.SUCCESS.value}', finished_at = %(now)s
        FROM ended
        WHERE attempt.run_id = ended.id AND {at("attempt.state")} = '{A.RUNNING.value}'
    ), closed AS (
        UPDATE occurrences_occurrence occurrence
        SET state = '{S.COMPLETED.value}', finished_at = %(now)s, reason = '',
            report = ended.report,
            finalized_at = CASE WHEN ended.finalized THEN %(now)s END
        FROM ended
        WHERE occurrence.id = ended.occurrence_id AND {at("occurrence.state")} IN ({ACTIVE})
        RETURNING occurrence.id, occurrence.job_id, occurrence.pool
    )
    SELECT closed.id, EXISTS (
        SELECT FROM occurrences_occurrence waiting
        WHERE waiting.state = '{S.QUEUED.value}'
        AND (waiting.job_id = closed.job_id OR waiting.pool = closed.pool)
    )
    FROM closed
    """


class Take(NamedTuple):
    """Which runs a worker would have, and what becomes of them then."""

    ids: list[UUID]
    first: UUID
    attempts: list[UUID]  # the ids the first one's attempts would have, by number
    token: UUID
    worker: str
    now: datetime
    lease: datetime


def claim(sql: str, take: Take) -> list[tuple[Any, ...]]:
    return _rows(sql, take._asdict())


class Start(NamedTuple):
    """The attempt a held run is about to make."""

    id: UUID
    attempt: UUID
    number: int
    token: UUID
    worker: str
    now: datetime


def begin(start: Start) -> bool:
    with _cursor() as cursor, connection.wrap_database_errors:
        return cursor.execute(BEGIN, start._asdict()).rowcount == 1


class Completion(NamedTuple):
    run: UUID
    occurrence: UUID
    token: UUID
    report: str  # JSON
    finalized: bool  # owes no hook


def complete(items: Sequence[Completion], *, now: datetime) -> dict[UUID, bool]:
    """Occurrences that were closed; true where somebody may wait for that."""
    runs, occurrences, tokens, reports, finalized = (list(column) for column in zip(*items, strict=True))
    documents = f"[{','.join(reports)}]"
    facts = {"runs": runs, "occurrences": occurrences, "tokens": tokens, "reports": documents}
    return dict(_rows(COMPLETE, {**facts, "finalized": finalized, "now": now}))


def _rows(sql: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    with _cursor() as cursor, connection.wrap_database_errors:
        return cursor.execute(sql, parameters).fetchall()


def _cursor() -> "Cursor[tuple[Any, ...]]":
    """Not Django's: that one sends the values inside the text, so that every call is planned anew."""
    connection.validate_no_broken_transaction()
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    from psycopg import Cursor  # noqa: PLC0415 - not there on SQLite alone
    from psycopg.rows import tuple_row  # noqa: PLC0415

    return Cursor(connection.connection, row_factory=tuple_row)
