"""Fill a database with jobs by COPY and build the indexes afterwards: a million jobs in two minutes."""

# ruff: noqa: PLC0415 -- Django's models can be imported once its settings are complete
from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

SEND = "punctual.beat.periodic_tasks.importer.send"  # the name of a registered function


class Fleet:
    """Jobs with one task each; the first `due` of them can be made due repeatedly."""

    def __init__(self, size: int, due: int) -> None:
        from punctual.jobs.clock import database_now
        from punctual.jobs.ids import job_id

        self.now = database_now().replace(microsecond=0)
        self.long_ago, self.far = self.now - timedelta(days=1), self.now + timedelta(days=1)
        self.ids = [str(job_id(f"job {number}")) for number in range(size)]
        self.due = self.ids[:due]

    def insert(self) -> None:
        from punctual.jobs.ids import task_id

        empty()
        stamp, far = self.long_ago.isoformat(), self.far.isoformat()
        job = f"0 * * * *\t{{}}\t{{}}\tfile\t1\tt\t{stamp}\t{stamp}\n"
        task = f"step\t{SEND}\t0\t{{}}\t{stamp}\t{stamp}\n"
        with (
            without_checks(),
            without_indexes(
                "punctual_job",
                "punctual_task",
                "punctual_jobversion",
                "punctual_cursor",
                "punctual_occurrence",
            ),
        ):
            copy(
                "punctual_job",
                "id name schedule config metadata origin version enabled created_at updated_at",
                (f"{id_}\tjob {number}\t{job}" for number, id_ in enumerate(self.ids)),
            )
            copy(
                "punctual_task",
                "id job_id name function position config created_at updated_at",
                (f"{task_id(UUID(id_), 'step')}\t{id_}\t{task}" for id_ in self.ids),
            )
            steps = [{"name": "step", "function": SEND, "config": {}}]
            copy(
                "punctual_jobversion",
                "job_id number author reason after created_at",
                (f"{id_}\t1\tfleet\t\t{json.dumps({'tasks': steps})}\t{stamp}\n" for id_ in self.ids),
            )
            copy(
                "punctual_cursor",
                "job_id settled_until planned_until plan_at problem starts",
                (f"{id_}\t{stamp}\t{far}\t{far}\t\t0\n" for id_ in self.ids),
            )
            self._plan(self.ids, self.far)
        execute("VACUUM ANALYZE")

    def make_due(self, at: datetime) -> None:
        """Make the first `due` jobs due at `at`; delete their other occurrences."""
        execute("DELETE FROM punctual_taskrun")
        execute("DELETE FROM punctual_occurrence WHERE job_id = ANY(%s::uuid[])", [self.due])
        execute(
            "UPDATE punctual_cursor SET planned_until = %s, plan_at = %s, settled_until = %s"
            " WHERE job_id = ANY(%s::uuid[])",
            [at, at, self.long_ago, self.due],
        )
        with without_checks():
            self._plan(self.due, at)

    def _plan(self, jobs: Sequence[str], at: datetime) -> None:
        from punctual.jobs.config.cascade import Config
        from punctual.jobs.ids import occurrence_id

        config, stamp, late = json.dumps(Config().to_json()), self.long_ago, at + timedelta(hours=1)
        first = f"1\tschedule\t{at}\t{at}\t{late}\tpending\t\tt\tdefault\t0\t{config}"
        rest = f"{first}\t{{}}\t{{}}\t{{}}\t1\t\t\t{stamp}\t1:00:00\n"
        copy(
            "punctual_occurrence",
            "id job_id job_version cause scheduled_for run_at late_at state reason exclusive pool priority"
            " config overrides metadata args instants requested_by request_reason created_at"
            " execution_timeout",
            (f"{occurrence_id(id_, at)}\t{id_}\t{rest}" for id_ in jobs),
        )


def execute(sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []


def copy(table: str, columns: str, lines: Iterable[str]) -> None:
    """Write lines in COPY format, many at a time: a million rows take seconds."""
    from django.db import connection

    with connection.cursor() as cursor:
        names, rest = ", ".join(columns.split()), iter(lines)
        with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as stream:
            while block := "".join(islice(rest, 1000)):
                stream.write(block)


@contextmanager
def without_indexes(*tables: str) -> Iterator[None]:
    """Drop the indexes and build them after the block, which is much faster than updating them per row."""
    indexes = execute("SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY(%s)", [list(tables)])
    constrained = {
        name for (name,) in execute("SELECT conindid::regclass::text FROM pg_constraint WHERE conindid > 0")
    }
    droppable = [(name, definition) for name, definition in indexes if name not in constrained]
    for name, _ in droppable:
        execute(f'DROP INDEX "{name}"')
    yield
    execute("SET maintenance_work_mem = '256MB'")
    for _, definition in droppable:
        execute(definition)


@contextmanager
def without_checks() -> Iterator[None]:
    """Disable triggers and foreign key checks in the block; the rows are known to be valid."""
    execute("SET session_replication_role = replica")
    yield
    execute("SET session_replication_role = DEFAULT")


def empty() -> None:
    execute("TRUNCATE punctual_job, punctual_occurrence, punctual_taskrun, punctual_cursor CASCADE")
    execute("DELETE FROM punctual_pool")
    execute("INSERT INTO punctual_pool VALUES ('default', 10000000)")
