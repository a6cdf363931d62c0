"""The raw SQL of this room, for PostgreSQL: claim and ending, bulk writes from arrays, and a few locks.

`punctual.occurrences.engines.postgresql` supplies the parameters. Only names of our own tables and columns
and our own constants are formatted into statements; every value is a parameter.

Within a statement PostgreSQL decides the order of its parts, except where one part reads from another: so
every part that locks a run reads from the part that locks its occurrence first.

A run with neighbours ends under a lock of its occurrence that its neighbours share, so they need not wait for
each other. No statement can tell whether it was the last to end: a statement sees the rows as they were when
it began. Its worker therefore asks again after the commit (STEP_DUE). Of two runs that are last, the one that
committed later sees the other.
"""

# ruff: noqa: S608 - see above
from collections.abc import Iterable, Sequence
from functools import cache, partial
from threading import local
from typing import TYPE_CHECKING, Any

from django.db import DEFAULT_DB_ALIAS, connection, connections

from punctual.occurrences.engines.contract import Wait
from punctual.occurrences.states import OCCURRENCE_ACTIVE, RUN_HELD, RUN_MOVING

if TYPE_CHECKING:
    from psycopg import Cursor

# -- sending ----------------------------------------------------------------------------------------------

_thread = local()


def fetch_rows(sql: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Send a statement that is planned once for each connection."""
    wrapper: Any = connections[DEFAULT_DB_ALIAS]  # `connection` would look it up at each access
    with wrapper.wrap_database_errors:
        cursor = _cursor(wrapper)
        if wrapper.execute_wrappers or wrapper.queries_logged:
            _execute_observed(wrapper, cursor, sql, parameters)
        else:
            cursor.execute(sql, parameters)
        return cursor.fetchall()


def _execute_observed(
    wrapper: Any, cursor: "Cursor[tuple[Any, ...]]", sql: str, parameters: dict[str, Any]
) -> None:
    """Show the statement to Django's instrumentation, which sees only Django's own cursors."""

    def execute(sql: str, parameters: Any, _many: bool, _context: object) -> None:  # noqa: FBT001 - Django's
        cursor.execute(sql, parameters)

    if wrapper.queries_logged:
        from psycopg import ClientCursor  # noqa: PLC0415 - missing in a SQLite installation

        text = ClientCursor(wrapper.connection).mogrify(sql, parameters)
        wrapper.queries_log.append({"sql": text, "time": "0"})
    executor: Any = execute
    for observe in reversed(wrapper.execute_wrappers):
        executor = partial(observe, executor)
    executor(sql, parameters, False, {"connection": wrapper, "cursor": cursor})  # noqa: FBT003


def _cursor(wrapper: Any) -> "Cursor[tuple[Any, ...]]":
    """A cursor with parameters bound by the server; Django's sends them inside the text, so that PostgreSQL
    plans every call anew. Kept with its connection: creating one takes as long as the rest of a call."""
    wrapper.validate_no_broken_transaction()
    wrapper.close_if_health_check_failed()
    wrapper.ensure_connection()
    if getattr(_thread, "connection", None) is not wrapper.connection:
        from psycopg import Cursor  # noqa: PLC0415 - missing in a SQLite installation
        from psycopg.rows import tuple_row  # noqa: PLC0415

        _thread.connection = wrapper.connection
        _thread.cursor = Cursor(wrapper.connection, row_factory=tuple_row)
    cursor: Cursor[tuple[Any, ...]] = _thread.cursor
    return cursor


def execute(sql: str, parameters: Sequence[Any]) -> int:
    """Through Django's cursor, for statements whose text differs from call to call; return the row count."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return int(cursor.rowcount)


def _in(states: Iterable[str]) -> str:
    return ", ".join(f"'{state}'" for state in states)


ACTIVE, HELD, MOVING = _in(OCCURRENCE_ACTIVE), _in(RUN_HELD), _in(RUN_MOVING)


def _unindexed(column: str) -> str:
    """A state to compare, not to look up: rows are found by their ids. The indexes of open rows are short
    most of the time, so the planner would read one from end to end, in a backlog as well."""
    return f"({column} || '')"


# Another session may hold a row that a worker needs. A claim gives up, and the run is sent again later; the
# results of a bundle are written apart; the result of a single run waits, because it must not be lost.
MAX_LOCK_WAIT = "2s"
WAIT_BRIEFLY = f"set_config('lock_timeout', '{MAX_LOCK_WAIT}', true)"  # until the end of the transaction

# -- claim ------------------------------------------------------------------------------------------------

OCCURRENCE = (
    "occurrence.id, occurrence.job_id, job.name, occurrence.job_version, occurrence.cause,"
    " occurrence.scheduled_for, occurrence.pool, occurrence.config"
)


@cache
def claim(*, many: bool) -> str:
    """scheduled → claimed → running with its attempt, or scheduled → claimed; their occurrences → running.

    A run that another worker takes at the same moment drops out by its guard, which sees the row as it is
    once its lock is ours. Its occurrence has then been started by that other claim.
    """
    # Two bundles may hold runs of the same occurrences: lock them in one order. A single run has one.
    locked = f"""locked AS MATERIALIZED (
        SELECT id AS occurrence_id FROM punctual_occurrence
        WHERE id IN (SELECT occurrence_id FROM wanted WHERE phase = 'dispatched')
        AND {_unindexed("state")} = 'dispatched'
        ORDER BY id FOR NO KEY UPDATE
    ),"""
    return f"""
    WITH wanted AS MATERIALIZED (
        SELECT run.id, run.occurrence_id, occurrence.state AS phase, {WAIT_BRIEFLY}
        FROM punctual_taskrun run
        JOIN punctual_occurrence occurrence ON occurrence.id = run.occurrence_id
        WHERE run.id {"= ANY(%(ids)s::uuid[])" if many else "= %(ids)s"}
        AND {_unindexed("run.state")} = 'scheduled' AND run.available_at <= %(now)s
        AND run.parked_at IS NULL AND {_unindexed("occurrence.state")} IN ({ACTIVE})
    ), {locked if many else ""}
    started AS (
        UPDATE punctual_occurrence occurrence
        SET state = 'running', started_at = %(now)s, deadline_at = %(now)s + occurrence.execution_timeout
        FROM {"locked" if many else "wanted"} AS source
        WHERE occurrence.id = source.occurrence_id AND {_unindexed("occurrence.state")} = 'dispatched'
        RETURNING occurrence.id, occurrence.started_at, occurrence.deadline_at
    ), held AS (
        UPDATE punctual_taskrun run
        SET state = CASE WHEN run.attempts_made < %(begin)s THEN 'running' ELSE 'claimed' END,
            started_at = CASE WHEN run.attempts_made < %(begin)s THEN %(now)s ELSE run.started_at END,
            attempts_made = run.attempts_made + (run.attempts_made < %(begin)s)::int,
            claim_token = %(token)s, claimed_by = %(worker)s, lease_until = %(lease_until)s,
            heartbeat_at = %(now)s
        FROM wanted
        WHERE run.id = wanted.id AND {_unindexed("run.state")} = 'scheduled'
        AND run.available_at <= %(now)s AND run.parked_at IS NULL AND (SELECT count(*) FROM started) >= 0
        RETURNING run.id, run.occurrence_id, run.task_id, run.function, run.position, run.reason,
            run.policy,
            run.attempts_made, run.snoozes, run.started_at, run.state
    ), opened AS (
        INSERT INTO punctual_attempt
            (id, run_id, number, state, worker, started_at, error_type, error, traceback, log)
        SELECT (%(attempts)s::uuid[])[held.attempts_made], held.id, held.attempts_made - 1, 'running',
            %(worker)s::text, %(now)s, '', '', '', ''
        FROM held WHERE held.state = 'running'
    )
    SELECT held.id, held.task_id, task.name, held.function, held.position, held.reason, held.policy,
        held.attempts_made, held.snoozes, held.started_at, held.state = 'running',
        {OCCURRENCE}, COALESCE(started.started_at, occurrence.started_at), occurrence.holds_slot,
        occurrence.run_at, COALESCE(started.deadline_at, occurrence.deadline_at),
        occurrence.args, occurrence.covers, occurrence.metadata, started.id IS NOT NULL,
        NOT EXISTS (SELECT FROM punctual_taskrun other
                    WHERE other.occurrence_id = held.occurrence_id AND other.id <> held.id)
    FROM held
    JOIN punctual_task task ON task.id = held.task_id
    JOIN punctual_occurrence occurrence ON occurrence.id = held.occurrence_id
    JOIN punctual_job job ON job.id = occurrence.job_id
    LEFT JOIN started ON started.id = occurrence.id
    """


# -- ending -----------------------------------------------------------------------------------------------

COLUMNS = (
    "run:uuid occurrence:uuid token:uuid state:text available_at:timestamptz final:bool "
    "snoozed:int reason:text error:text fingerprint:text attempt:uuid number:int "
    "started_at:timestamptz recorded:bool attempt_state:text error_type:text message:text "
    "traceback:text log:text outcome:text finalized:bool report:jsonb rests:bool"
)
TYPES = {name: type_ for name, _, type_ in (column.partition(":") for column in COLUMNS.split())}


@cache
def _given(*, many: bool) -> str:
    """Ends as rows: one array per column or, for one row, plain parameters. With these the planner knows
    that there is one row; with arrays it plans joins that cost a single run half as much again."""
    if many:
        arrays = ", ".join(f"%({name})s::{type_}[]" for name, type_ in TYPES.items())
        return f"MATERIALIZED (SELECT * FROM unnest({arrays}) AS given ({', '.join(TYPES)}))"
    scalars = ", ".join(f"%({name})s::{type_} AS {name}" for name, type_ in TYPES.items())
    return f"NOT MATERIALIZED (SELECT {scalars})"


def _awaited(*, shared: bool) -> str:
    """Whether another occurrence waits for the slot of a closed or resting one: of its job, of its pool or,
    if all pools share a limit, of any pool."""
    same_pool = "" if shared else " AND waiting.pool = freed.pool"
    conditions = (
        "waiting.state = 'queued' AND waiting.job_id = freed.job_id",
        f"waiting.state = 'queued'{same_pool}",
        f"waiting.slot_wanted_at IS NOT NULL{same_pool}",
    )
    exist = (f"EXISTS (SELECT FROM punctual_occurrence waiting WHERE {text})" for text in conditions)
    return f"({' OR '.join(exist)})"


@cache
def end(*, many: bool, shared: bool) -> str:
    """claimed, running → any other state, with its attempt; an occurrence with no other run → final, or it
    gives its slot back while the run waits for its retry."""
    return f"""
    WITH given AS {_given(many=many)}, locked AS MATERIALIZED (
        SELECT id {", " + WAIT_BRIEFLY if many else ""} FROM punctual_occurrence
        WHERE id {"= ANY(%(occurrence)s::uuid[])" if many else "= %(occurrence)s"}
        AND {_unindexed("state")} IN ({ACTIVE})
        ORDER BY id FOR SHARE
    ), ended AS (
        UPDATE punctual_taskrun run
        SET state = given.state, finished_at = CASE WHEN given.final THEN %(now)s END,
            available_at = COALESCE(given.available_at, run.available_at),
            dispatched_at = CASE WHEN given.final THEN run.dispatched_at END,
            snoozes = run.snoozes + given.snoozed, reason = COALESCE(given.reason, run.reason),
            error = COALESCE(given.error, run.error),
            fingerprint = COALESCE(given.fingerprint, run.fingerprint),
            started_at = given.started_at, attempts_made = given.number + 1,
            claim_token = NULL, lease_until = NULL
        FROM given JOIN locked ON locked.id = given.occurrence
        WHERE run.id = given.run AND {_unindexed("run.state")} IN ({HELD}) AND run.claim_token = given.token
        RETURNING run.claimed_by, given.*
    ), recorded AS (
        UPDATE punctual_attempt attempt
        SET state = ended.attempt_state, finished_at = %(now)s, error_type = ended.error_type,
            error = ended.message, traceback = ended.traceback, log = ended.log
        FROM ended
        WHERE ended.recorded AND attempt.id = ended.attempt AND {_unindexed("attempt.state")} = 'running'
    ), inserted AS (
        INSERT INTO punctual_attempt AS attempt
            (id, run_id, number, state, worker, started_at, finished_at, error_type, error, traceback, log)
        SELECT attempt, run, number, attempt_state, claimed_by, started_at, %(now)s, error_type, message,
            traceback, log
        FROM ended WHERE NOT recorded
        -- The supervisor may have recorded it meanwhile.
        ON CONFLICT (id) DO UPDATE
        SET state = excluded.state, finished_at = %(now)s, error_type = excluded.error_type,
            error = excluded.error, traceback = excluded.traceback, log = excluded.log
        WHERE {_unindexed("attempt.state")} = 'running'
    ), freed AS (
        UPDATE punctual_occurrence occurrence
        SET state = COALESCE(ended.outcome, occurrence.state), reason = '', report = ended.report,
            finished_at = CASE WHEN ended.outcome IS NOT NULL THEN %(now)s END,
            finalized_at = CASE WHEN ended.finalized THEN %(now)s END, holds_slot = false
        FROM ended
        WHERE occurrence.id = ended.occurrence AND (ended.outcome IS NOT NULL OR ended.rests)
        AND {_unindexed("occurrence.state")} IN ({ACTIVE})
        RETURNING occurrence.id, occurrence.job_id, occurrence.pool, occurrence.finished_at
    )
    SELECT ended.run, freed.id, freed.finished_at IS NOT NULL,
        freed.id IS NOT NULL AND {_awaited(shared=shared)}
    FROM ended LEFT JOIN freed ON freed.id = ended.occurrence
    """


# -- occurrences ------------------------------------------------------------------------------------------

# The members of a fan-out end about in their order: an open one is found soonest from the last backwards.
STEP_DUE = f"""
    SELECT given.id FROM unnest(%(ids)s::uuid[]) AS given (id)
    WHERE (
        SELECT true FROM punctual_taskrun run
        WHERE run.occurrence_id = given.id AND {_unindexed("run.state")} IN ({MOVING})
        AND run.available_at IS NOT NULL AND run.parked_at IS NULL
        ORDER BY run.position DESC LIMIT 1
    ) IS NULL
    """


@cache
def lock_occurrences(wait: Wait) -> str:
    return f"""
    SELECT {OCCURRENCE}, occurrence.started_at, occurrence.holds_slot,
        occurrence.ending, occurrence.reason {", " + WAIT_BRIEFLY if wait is Wait.BRIEFLY else ""}
    FROM punctual_occurrence occurrence JOIN punctual_job job ON job.id = occurrence.job_id
    WHERE occurrence.id = ANY(%(ids)s::uuid[])
    AND {_unindexed("occurrence.state")} = ANY(%(states)s::text[])
    ORDER BY occurrence.id FOR NO KEY UPDATE OF occurrence {"SKIP LOCKED" if wait is Wait.NEVER else ""}
    """


RUNS = """
    SELECT run.id, run.occurrence_id, task.name, run.position, run.state, run.reason, run.policy,
        run.attempts_made, run.started_at, run.finished_at, run.error,
        run.state = 'scheduled' AND run.available_at IS NULL, run.parked_at IS NOT NULL
    FROM punctual_taskrun run JOIN punctual_task task ON task.id = run.task_id
    WHERE run.occurrence_id = ANY(%(ids)s::uuid[])
    ORDER BY run.occurrence_id, run.position
    """


@cache
def close(*, shared: bool) -> str:
    """Active or waiting → final; the slot is free."""
    return f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(%(occurrence)s::uuid[], %(outcome)s::text[], %(reason)s::text[],
            %(finalized)s::bool[], %(report)s::jsonb[]) AS given (id, outcome, reason, finalized, report)
    ), freed AS (
        UPDATE punctual_occurrence occurrence
        SET state = given.outcome, finished_at = %(now)s, reason = given.reason, report = given.report,
            finalized_at = CASE WHEN given.finalized THEN %(now)s END,
            holds_slot = false, slot_wanted_at = NULL
        FROM given
        WHERE occurrence.id = given.id AND {_unindexed("occurrence.state")} = ANY(%(states)s::text[])
        RETURNING occurrence.id, occurrence.job_id, occurrence.pool
    )
    SELECT freed.id, {_awaited(shared=shared)} FROM freed
    """


# The lock that a foreign key takes at the commit, taken before the insert: it conflicts with deleting only.
# Django's ORM cannot request it.
LOCK_PARENTS = """
    SELECT id FROM punctual_occurrence WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR KEY SHARE
    """


# A frozen process must not keep a pool from the others: the server ends its session, and the locks with it.
MAX_POOL_WAIT, MAX_POOL_IDLE = "500ms", "1500ms"
POOL_LOCKS = 0x504F4F4C  # the first half of the keys: other advisory locks of this database have another


@cache
def lock_pools(*, wait: bool, limited: bool) -> str:
    """Advisory locks instead of row locks: a session that holds the row of a pool, to look at it or to change
    its size, stops nothing. Both settings last until the end of the transaction."""
    lock = f"pg_{'' if wait else 'try_'}advisory_xact_lock({POOL_LOCKS}, hashtext(named.name))"
    limits = f"""
        , set_config('lock_timeout', '{MAX_POOL_WAIT}', true)
        , set_config('idle_in_transaction_session_timeout', '{MAX_POOL_IDLE}', true)"""
    return f"""
    WITH named AS MATERIALIZED (
        SELECT name, size {limits if limited else ""}
        FROM punctual_pool WHERE name = ANY(%(names)s::text[]) ORDER BY name
    )
    SELECT named.name, named.size, {lock} FROM named
    """


@cache
def oldest(columns: tuple[str, ...]) -> str:
    """LATERAL: the index is searched once per job, and the statement ends with the last row it may read,
    whatever the planner estimates about the number of old rows."""
    return f"""
    SELECT {", ".join(f"old.{name}" for name in columns)}
    FROM unnest(%(jobs)s::uuid[], %(cutoffs)s::timestamptz[], %(since)s::timestamptz[], %(after)s::uuid[])
         WITH ORDINALITY AS job (job_id, cutoff, since, after, place)
    CROSS JOIN LATERAL (
        SELECT {", ".join(columns)} FROM punctual_occurrence
        WHERE job_id = job.job_id AND scheduled_for < job.cutoff
          AND scheduled_for >= job.since AND (scheduled_for, id) > (job.since, job.after)
        ORDER BY scheduled_for, id LIMIT %(limit)s
    ) AS old
    ORDER BY job.place, old.scheduled_for, old.id LIMIT %(limit)s
    """


# -- bulk writes ------------------------------------------------------------------------------------------


def insert_missing(table: str, names: Iterable[str], columns: Iterable[str], source: str) -> str:
    insert = f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(columns)} FROM {source}"
    return f"{insert} ON CONFLICT DO NOTHING"


def update_by_key(table: str, key: str, names: Iterable[str], source: str) -> str:
    changes = ", ".join(f"{name} = source.{name}" for name in names)
    return f"UPDATE {table} SET {changes} FROM {source} WHERE {table}.{key} = source.{key}"


def source_of(names: Iterable[str], types: Iterable[str]) -> str:
    """Rows as a FROM clause: one array parameter for each column."""
    arrays = ", ".join(f"%s::{type_}[]" for type_ in types)
    return f"unnest({arrays}) AS source ({', '.join(names)})"
