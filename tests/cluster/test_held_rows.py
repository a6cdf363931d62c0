"""Another session holds a row, or a worker freezes: every other job keeps its schedule."""

# ruff: noqa: S608 - the parts of the statements are ours
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.utils import timezone
from psycopg import sql

from punctual.occurrences.models import Attempt, Occurrence
from tests.cluster.job_rows import insert_jobs, make_pool
from tests.cluster.ledger_queries import start_beats
from tests.cluster.processes import ALIAS, TOOLS, Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.alone, pytest.mark.early]

EACH_SECOND = "* * * * * *"
MAX_LATENESS = timedelta(seconds=2)
HELD_FOR = 6.0  # seconds, each row
FREEZES = 6
# A row of each table: of the job `held`, or one that all jobs share.
HELD_JOB = "(SELECT id FROM punctual_job WHERE name = 'held')"
HELD_TASK = f"(SELECT id FROM punctual_task WHERE job_id = {HELD_JOB})"
HELD_RUNS = f"(SELECT id FROM punctual_taskrun WHERE task_id = {HELD_TASK})"
ROWS = {
    "punctual_job": f"id = {HELD_JOB}",
    "punctual_jobversion": "true",
    "punctual_task": f"id = {HELD_TASK}",
    "punctual_cursor": f"job_id = {HELD_JOB}",
    "punctual_pool": "name = 'default'",
    "punctual_occurrence": f"job_id = {HELD_JOB} AND state = 'pending'",
    "punctual_taskrun": f"state = 'running' AND task_id = {HELD_TASK}",
    "punctual_attempt": f"state = 'running' AND run_id IN {HELD_RUNS}",
    "punctual_process": "kind = 'beat'",
    "punctual_pace": "true",
    "punctual_pruneround": "true",
}


@contextmanager
def hold(cluster: Cluster, table: str, condition: str) -> Iterator[None]:
    """Lock one row of the table until the end of the block, in a session of its own."""
    with psycopg.connect(cluster.database_url, application_name="operator") as session:
        query = f"SELECT 1 FROM {table} WHERE {condition} ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED"
        deadline = time.monotonic() + 20
        while session.execute(sql.SQL(query)).fetchone() is None:
            session.rollback()
            assert time.monotonic() < deadline, f"{table} has no such row"
        yield
        session.rollback()


def lateness(prefix: str, since: datetime) -> list[tuple[timedelta, str, datetime]]:
    """How late each start was, and how late those are that have not started."""
    rows = Occurrence.objects.using(ALIAS).filter(job__name__startswith=prefix, run_at__gt=since)
    due = rows.filter(run_at__lte=timezone.now()).exclude(state="skipped")
    starts = dict(
        Attempt.objects.using(ALIAS)
        .filter(run__occurrence__in=due)
        .values_list("run__occurrence_id", "started_at")
    )
    now = timezone.now()
    return [
        (starts.get(id_, now) - run_at, name, run_at)
        for id_, name, run_at in due.values_list("id", "job__name", "run_at")
    ]


def wait_for_starts(cluster: Cluster, prefix: str, count: int) -> None:
    starts = Attempt.objects.using(ALIAS).filter(run__occurrence__job__name__startswith=prefix)
    cluster.wait_until(lambda: starts.count() >= count, timeout=60, describe=f"{count} starts of {prefix}")


def assert_on_time(cluster: Cluster, prefix: str, since: datetime, what: str) -> None:
    worst = sorted(lateness(prefix, since), reverse=True)
    assert worst, what
    assert worst[0][0] <= MAX_LATENESS, f"{what}: {worst[:3]}\n{cluster.logs()}"


@pytest.mark.req("PRF-2")
def test_a_row_of_any_table_held_by_another_session_delays_no_other_job(cluster: Cluster) -> None:
    cluster.apps = TOOLS
    start_beats(cluster, 2)
    for _ in range(2):
        cluster.start_worker(concurrency=3)
    options: dict[str, Any] = {"overlap": "allow", "pool": "default"}
    insert_jobs(["held"], EACH_SECOND, function="slow", metadata={"seconds": "0.5"}, **options)
    insert_jobs([f"other-{number}" for number in range(4)], EACH_SECOND, **options)
    wait_for_starts(cluster, "other", 60)
    wait_for_starts(cluster, "held", 2)
    for table, condition in ROWS.items():
        with hold(cluster, table, condition):
            since = timezone.now()
            cluster.wait_until(
                lambda since=since: timezone.now() - since > timedelta(seconds=HELD_FOR),  # type: ignore[misc]
                timeout=60,
                describe=table,
            )
            assert_on_time(cluster, "other", since, f"while a row of {table} was held")


@pytest.mark.req("PRF-2")
def test_a_worker_that_freezes_at_any_moment_delays_no_job_of_other_workers(cluster: Cluster) -> None:
    """Its jobs wait for slots of a pool that all share: it freezes while it settles, admits and sends."""
    cluster.apps = TOOLS
    start_beats(cluster, 2)
    cluster.start_worker(concurrency=3)
    frozen = cluster.start_worker(concurrency=4, queues="frozen")
    make_pool("default", 20)
    insert_jobs([f"other-{number}" for number in range(3)], EACH_SECOND, overlap="allow", priority=10)
    busy = [f"busy-{number}" for number in range(12)]
    insert_jobs(busy, EACH_SECOND, tasks=3, queue="frozen", overlap="queue", bundle=False)
    wait_for_starts(cluster, "other", 10)
    wait_for_starts(cluster, "busy", 60)
    for number in range(FREEZES):
        since = timezone.now()
        cluster.freeze(frozen)
        cluster.wait_until(
            lambda since=since: timezone.now() - since > timedelta(seconds=4),  # type: ignore[misc]
            timeout=60,
            describe="frozen",
        )
        assert_on_time(cluster, "other", since, f"frozen for the {number + 1}. time")
        cluster.thaw(frozen)
        before = Attempt.objects.using(ALIAS).filter(run__occurrence__job__name__startswith="busy").count()
        wait_for_starts(cluster, "busy", before + 20)
