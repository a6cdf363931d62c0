"""PostgreSQL: occurrence ids → the runs of those where none moves any more, so that a next step is due.

Asked by the worker that ended a run, after that is committed. Mostly some neighbour is still open, and the
answer is empty. Those of a fan-out end about in their order, so it looks from the last one backwards.
"""

import json
from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from punctual.occurrences.database.prepared_statements import fetch_rows
from punctual.occurrences.states import RUN_OPEN
from punctual.occurrences.swift import at

OPEN = ", ".join(f"'{state.value}'" for state in RUN_OPEN)


def last_out_sql(columns: Iterable[str]) -> str:
    """As a document and not as an array: of a document's length the planner assumes nothing, and so it plans
    once, whether one is asked for or fifty."""
    return f"""
    SELECT {", ".join(columns)}
    FROM jsonb_array_elements_text(%(ids)s::jsonb) AS given (id)
    JOIN punctual_taskrun run ON run.occurrence_id = given.id::uuid
    JOIN punctual_task task ON task.id = run.task_id
    WHERE (
        SELECT true FROM punctual_taskrun other
        WHERE other.occurrence_id = given.id::uuid AND {at("other.state")} IN ({OPEN})
        AND other.available_at IS NOT NULL
        ORDER BY other.position DESC LIMIT 1
    ) IS NULL
    ORDER BY run.occurrence_id, run.position
    """  # noqa: S608 - put together from our own constants; every value is a parameter


def last_out(sql: str, ids: Collection[UUID]) -> list[tuple[Any, ...]]:
    return fetch_rows(sql, {"ids": json.dumps([str(id_) for id_ in ids])})
