"""PostgreSQL: plain successes → ended, and occurrences that end with them → completed; a statement each.

A run without neighbours ends together with its occurrence. No statement can tell whether a run with
neighbours was the last: a statement sees the rows as they were when it began, and its
neighbours end at the same moment. So it ends by itself (`end_one`, `end_many`), and its worker looks
again, in a statement of its own (`last_out`), and closes what is over (`close`): of two that are last, the
one that committed later sees the other, and where both see it, the guard lets one of them close it.

While neighbours end they share the lock of their occurrence, so that they need not wait for each other. The
general road takes the same lock for itself: what it decides by cannot change under its hands.

Only `transitions` calls this module; what `swift` says of its statements holds here as well.
"""

# ruff: noqa: S608 - put together from our own constants; every value is a parameter
import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from punctual.occurrences.database.arrays import array_literal
from punctual.occurrences.database.prepared_statements import fetch_rows
from punctual.occurrences.states import AttemptState, OccurrenceState, RunState
from punctual.occurrences.swift import ACTIVE, at

S, R, A = OccurrenceState, RunState, AttemptState


class Ending(NamedTuple):
    """A success."""

    run: UUID
    occurrence: UUID
    token: UUID
    attempt: UUID
    number: int
    started_at: datetime
    log: str


class Closing(NamedTuple):
    """An occurrence all runs of which have succeeded."""

    occurrence: UUID
    finalized: bool  # owes no hook
    report: str  # JSON


FOR_ITSELF, SHARED = "FOR NO KEY UPDATE", "FOR SHARE"
ENDED = f"""state = '{R.SUCCESS.value}', finished_at = %(now)s, error = '', claim_token = NULL,
            lease_until = NULL"""
CLOSED = f"state = '{S.COMPLETED.value}', finished_at = %(now)s, reason = ''"
# The answer: what was closed, and whether an occurrence waits for its job or in its pool.
ANSWER = f"""
    SELECT closed.id, EXISTS (
        SELECT FROM punctual_occurrence waiting
        WHERE waiting.state = '{S.QUEUED.value}' AND waiting.job_id = closed.job_id
    ) OR EXISTS (
        SELECT FROM punctual_occurrence waiting
        WHERE waiting.state = '{S.QUEUED.value}' AND waiting.pool = closed.pool
    )
    FROM closed
    """


def _one(lock: str) -> str:
    """running → success, and its attempt."""
    return f"""
    WITH locked AS MATERIALIZED (
        SELECT id FROM punctual_occurrence
        WHERE id = %(occurrence)s AND {at("state")} IN ({ACTIVE})
        {lock}
    ), ended AS (
        UPDATE punctual_taskrun run
        SET {ENDED}
        FROM locked
        WHERE run.id = %(run)s AND {at("run.state")} = '{R.RUNNING.value}' AND run.claim_token = %(token)s
        RETURNING run.id
    ), attempts AS (
        UPDATE punctual_attempt attempt
        SET state = '{A.SUCCESS.value}', finished_at = %(now)s, log = %(log)s
        FROM ended
        WHERE attempt.id = %(attempt)s AND {at("attempt.state")} = '{A.RUNNING.value}'
    )"""


def _many(lock: str) -> str:
    """claimed → running → success for those whose attempt is no row yet, running → success for the others."""
    return f"""
    WITH given AS MATERIALIZED (
        SELECT run, occurrence, attempt, number, started_at
        FROM unnest(%(runs)s::uuid[], %(occurrences)s::uuid[], %(attempts)s::uuid[], %(numbers)s::int[],
                    %(started)s::timestamptz[]) AS given (run, occurrence, attempt, number, started_at)
    ), locked AS (
        SELECT id FROM punctual_occurrence
        WHERE id = ANY(%(occurrences)s::uuid[]) AND {at("state")} IN ({ACTIVE})
        ORDER BY id {lock}
    ), ended AS (
        UPDATE punctual_taskrun run
        SET {ENDED}, started_at = given.started_at, attempts_made = given.number + 1
        FROM given JOIN locked ON locked.id = given.occurrence
        WHERE run.id = given.run AND {at("run.state")} IN ('{R.CLAIMED.value}', '{R.RUNNING.value}')
        AND run.claim_token = %(token)s
        RETURNING run.id, run.occurrence_id, run.claimed_by, given.attempt, given.number, given.started_at
    ), attempts AS (
        INSERT INTO punctual_attempt AS attempt (id, run_id, number, state, worker, started_at,
            finished_at, error_type, error, traceback, log)
        SELECT ended.attempt, ended.id, ended.number, '{A.SUCCESS.value}', ended.claimed_by, ended.started_at,
            %(now)s, '', '', '', COALESCE(%(logs)s::jsonb ->> ended.attempt::text, '')
        FROM ended
        ON CONFLICT (id) DO UPDATE SET state = '{A.SUCCESS.value}', finished_at = %(now)s, log = excluded.log
        WHERE {at("attempt.state")} = '{A.RUNNING.value}'
    )"""


# One document for all: an array of texts would have to be escaped, sign by sign.
CLOSINGS = """
        SELECT occurrence, finalized, report
        FROM jsonb_to_recordset(%(closings)s::jsonb)
            AS closing (occurrence uuid, finalized bool, report jsonb)
    """

# The only run of its occurrence, and its occurrence → completed.
COMPLETE_ONE = f"""{_one(FOR_ITSELF)}, closed AS (
        UPDATE punctual_occurrence occurrence
        SET {CLOSED}, report = %(report)s::jsonb,
            finalized_at = CASE WHEN %(finalized)s THEN %(now)s END
        FROM ended
        WHERE occurrence.id = %(occurrence)s AND {at("occurrence.state")} IN ({ACTIVE})
        RETURNING occurrence.id, occurrence.job_id, occurrence.pool
    )
    {ANSWER}
    """


def _closed(source: str, key: str) -> str:
    """Occurrences that `source` names by `key`, as their closings say."""
    return f"""closed AS (
        UPDATE punctual_occurrence occurrence
        SET {CLOSED}, report = closings.report,
            finalized_at = CASE WHEN closings.finalized THEN %(now)s END
        FROM {source} JOIN closings ON closings.occurrence = {key}
        WHERE occurrence.id = {key} AND {at("occurrence.state")} IN ({ACTIVE})
        RETURNING occurrence.id, occurrence.job_id, occurrence.pool
    )
    {ANSWER}
    """


COMPLETE_MANY = f"""{_many(FOR_ITSELF)}, closings AS MATERIALIZED ({CLOSINGS}),
    {_closed("ended", "ended.occurrence_id")}"""

# With neighbours: the run alone.
END_ONE = f"{_one(SHARED)} SELECT id FROM ended"
END_MANY = f"{_many(SHARED)} SELECT id FROM ended"

# Successes are final, so that nothing but the state of the occurrence itself needs to be asked again.
CLOSE = f"""
    WITH closings AS MATERIALIZED ({CLOSINGS}), locked AS (
        SELECT id FROM punctual_occurrence
        WHERE id IN (SELECT occurrence FROM closings) AND {at("state")} IN ({ACTIVE})
        ORDER BY id {FOR_ITSELF}
    ), {_closed("locked", "locked.id")}"""


def complete_one(ending: Ending, closing: Closing, *, now: datetime) -> dict[UUID, bool]:
    """Its occurrence, if it was closed; true where an occurrence may wait for that. Its attempt is a row."""
    return dict(fetch_rows(COMPLETE_ONE, {**ending._asdict(), **closing._asdict(), "now": now}))


def complete_many(
    endings: Sequence[Ending], closings: Collection[Closing], *, now: datetime
) -> dict[UUID, bool]:
    """The same for runs held under one token, whether their attempts are rows already or not."""
    return dict(fetch_rows(COMPLETE_MANY, {**_facts(endings), "closings": _document(closings), "now": now}))


def end_one(ending: Ending, *, now: datetime) -> set[UUID]:
    """The run, if it was still held. Its attempt is a row."""
    return {id_ for (id_,) in fetch_rows(END_ONE, {**ending._asdict(), "now": now})}


def end_many(endings: Sequence[Ending], *, now: datetime) -> set[UUID]:
    return {id_ for (id_,) in fetch_rows(END_MANY, {**_facts(endings), "now": now})}


def close(closings: Collection[Closing], *, now: datetime) -> dict[UUID, bool]:
    """Those this call has closed; true where an occurrence may wait for that."""
    return dict(fetch_rows(CLOSE, {"closings": _document(closings), "now": now}))


def _facts(endings: Sequence[Ending]) -> dict[str, Any]:
    return {
        "runs": array_literal(item.run for item in endings),
        "occurrences": array_literal(item.occurrence for item in endings),
        "attempts": array_literal(item.attempt for item in endings),
        "numbers": array_literal(item.number for item in endings),
        "started": array_literal(f'"{item.started_at}"' for item in endings),
        "logs": json.dumps({str(item.attempt): item.log for item in endings if item.log}),
        "token": endings[0].token,
    }


def _document(closings: Collection[Closing]) -> str:
    made = (
        f'{{"occurrence":"{item.occurrence}","finalized":{"true" if item.finalized else "false"},'
        f'"report":{item.report}}}'
        for item in closings
    )
    return f"[{','.join(made)}]"
