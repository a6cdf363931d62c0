"""How many jobs → a database full of them, by COPY, indexes built afterwards: a million in two minutes."""

# ruff: noqa: PLC0415 -- Django's models can be imported once its settings are complete
from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID


class Fleet:
    """So many jobs with one task; the first `due` of them can be made due again and again."""

    def __init__(self, size: int, due: int) -> None:
        from jobs.clock import database_now
        from jobs.ids import job_id

        self.now = database_now().replace(microsecond=0)
        self.long_ago, self.far = self.now - timedelta(days=1), self.now + timedelta(days=1)
        self.ids = [str(job_id(f"job {number}")) for number in range(size)]
        self.due = self.ids[:due]

    def make(self) -> None:
        from jobs.ids import task_id

        empty()
        stamp, far = self.long_ago.isoformat(), self.far.isoformat()
        job = f"0 * * * *\t{{}}\t{{}}\tfile\t1\tt\t{stamp}\t{stamp}\n"
        task = f"step\tbeat.importing.send\t0\t{{}}\t{stamp}\t{stamp}\n"
        with unchecked(), unindexed("jobs_job", "jobs_task", "occurrences_cursor", "occurrences_occurrence"):
            copy(
                "jobs_job",
                "id name schedule config metadata origin version enabled created_at updated_at",
                (f"{id_}\tjob {number}\t{job}" for number, id_ in enumerate(self.ids)),
            )
            copy(
                "jobs_task",
                "id job_id name function position config created_at updated_at",
                (f"{task_id(UUID(id_), 'step')}\t{id_}\t{task}" for id_ in self.ids),
            )
            copy(
                "occurrences_cursor",
                "job_id settled_until planned_until plan_at problem starts",
                (f"{id_}\t{stamp}\t{far}\t{far}\t\t0\n" for id_ in self.ids),
            )
            self._plan(self.ids, self.far)
        execute("VACUUM ANALYZE")

    def arm(self, at: datetime) -> None:
        """The due ones are due at `at`, and nothing else of theirs is in the ledger."""
        execute("DELETE FROM occurrences_taskrun")
        execute("DELETE FROM occurrences_occurrence WHERE job_id = ANY(%s::uuid[])", [self.due])
        execute(
            "UPDATE occurrences_cursor SET planned_until = %s, plan_at = %s, settled_until = %s"
            " WHERE job_id = ANY(%s::uuid[])",
            [at, at, self.long_ago, self.due],
        )
        with unchecked():
            self._plan(self.due, at)

    def _plan(self, jobs: Sequence[str], at: datetime) -> None:
        from jobs.config import Config
        from occurrences.ids import occurrence_text

        config, stamp, late = json.dumps(Config().dumped()), self.long_ago, at + timedelta(hours=1)
        first = f"1\tschedule\t{at}\t{at}\t{late}\tpending\t\tt\tdefault\t0\t{config}"
        rest = f"{first}\t{{}}\t{{}}\t1\t\t\t{stamp}\t1:00:00\n"
        copy(
            "occurrences_occurrence",
            "id job_id job_version cause scheduled_for run_at late_at state reason exclusive pool priority"
            " config overrides args instants requested_by request_reason created_at execution_timeout",
            (f"{occurrence_text(id_, at)}\t{id_}\t{rest}" for id_ in jobs),
        )


def execute(sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []


def copy(table: str, columns: str, lines: Iterable[str]) -> None:
    """Lines as COPY reads them, many at a time: a million rows are a matter of seconds."""
    from django.db import connection

    with connection.cursor() as cursor:
        names, rest = ", ".join(columns.split()), iter(lines)
        with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as stream:
            while block := "".join(islice(rest, 1000)):
                stream.write(block)


@contextmanager
def unindexed(*tables: str) -> Iterator[None]:
    """Indexes are built once the rows are there: one entry at a time, at random places, takes far longer."""
    indexes = execute("SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY(%s)", [list(tables)])
    bound = {
        name for (name,) in execute("SELECT conindid::regclass::text FROM pg_constraint WHERE conindid > 0")
    }
    loose = [(name, made) for name, made in indexes if name not in bound]
    for name, _ in loose:
        execute(f'DROP INDEX "{name}"')
    yield
    execute("SET maintenance_work_mem = '256MB'")
    for _, made in loose:
        execute(made)


@contextmanager
def unchecked() -> Iterator[None]:
    """Rows known to be right, without triggers and checks of references for each."""
    execute("SET session_replication_role = replica")
    yield
    execute("SET session_replication_role = DEFAULT")


def empty() -> None:
    execute("TRUNCATE jobs_job, occurrences_occurrence, occurrences_taskrun, occurrences_cursor CASCADE")
    execute("DELETE FROM occurrences_pool")
    execute("INSERT INTO occurrences_pool VALUES ('default', 10000000)")
