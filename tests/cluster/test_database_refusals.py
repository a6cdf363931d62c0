"""A PostgreSQL that refuses writes or connections, or restarts: no finished result is lost."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest

from punctual.occurrences.models import Attempt
from tests.cluster.job_rows import insert_jobs
from tests.cluster.ledger_queries import start_beats
from tests.cluster.processes import ALIAS, TOOLS, Cluster
from tests.services import database_url

pytestmark = [pytest.mark.cluster, pytest.mark.early]

LASTS = 8.0  # seconds; the functions take two
Trouble = Callable[[Cluster], "Iterator[None]"]


def administer(cluster: Cluster, *statements: str) -> None:
    with psycopg.connect(database_url(cluster.database_url, "postgres"), autocommit=True) as session:
        for statement in statements:
            session.execute(statement.encode())


def name_of(cluster: Cluster) -> str:
    return cluster.database_url.rpartition("/")[2].partition("?")[0]


@contextmanager
def read_only(cluster: Cluster) -> Iterator[None]:
    administer(cluster, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
    yield
    administer(
        cluster,
        "SET default_transaction_read_only = off",
        "ALTER SYSTEM RESET default_transaction_read_only",
        "SELECT pg_reload_conf()",
    )


@contextmanager
def without_connections(cluster: Cluster) -> Iterator[None]:
    """No new connection, as with too many; those there are end."""
    name = name_of(cluster)
    others = f"FROM pg_stat_activity WHERE datname = '{name}'"
    administer(
        cluster,
        f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
        f"SELECT pg_terminate_backend(pid) {others}",
    )
    yield
    administer(cluster, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


@contextmanager
def crashed(cluster: Cluster) -> Iterator[None]:
    cluster.crash_postgres()
    yield
    cluster.restart_postgres()


def finished(cluster: Cluster) -> list[tuple[UUID, int]]:
    """What functions have written at their end: the run and the number of the attempt."""
    file = cluster.folder / "finished"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(UUID(line.split()[0]), int(line.split()[1])) for line in lines]


@pytest.mark.req("TSK-9", "PRF-2")
@pytest.mark.parametrize("cluster", ["own_postgres"], indirect=True)
def test_what_finishes_while_the_database_refuses_is_recorded_afterwards(cluster: Cluster) -> None:
    cluster.apps = TOOLS
    start_beats(cluster, 2)
    cluster.start_worker(concurrency=4)
    jobs = [f"job-{number}" for number in range(4)]
    config: dict[str, Any] = {"overlap": "allow", "bundle": False}
    insert_jobs(jobs, "* * * * * *", function="without_database", metadata={"seconds": "2"}, **config)
    for trouble in (read_only, without_connections, crashed):
        before = len(finished(cluster))
        cluster.wait_until(
            lambda before=before: len(finished(cluster)) >= before + 8,  # type: ignore[misc]
            timeout=60,
            describe="functions finish",
        )
        began = time.monotonic()
        with trouble(cluster):
            cluster.wait_until(
                lambda began=began: time.monotonic() - began > LASTS,  # type: ignore[misc]
                timeout=LASTS + 5,
                describe="time passes",
            )
    done = finished(cluster)
    rows = Attempt.objects.using(ALIAS).filter(run__in={run for run, _ in done}, finished_at__isnull=False)

    def recorded() -> dict[tuple[UUID, int], str]:
        return {(run, number): state for run, number, state in rows.values_list("run_id", "number", "state")}

    cluster.wait_until(
        lambda: set(done) <= recorded().keys(), timeout=60, describe=lambda: set(done) - recorded().keys()
    )
    states = recorded()
    assert {item: states[item] for item in done} == dict.fromkeys(done, "success")
    assert len(done) == len(set(done)), "no attempt was made twice"
    assert cluster.log_lines("result.delayed")
