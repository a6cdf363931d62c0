"""A broker that answers with errors: no process exits, and everything runs once afterwards."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from redis import Redis

from punctual.jobs.models import Job
from tests.cluster import queues
from tests.cluster.job_rows import insert_jobs, make_pool, owed_instants
from tests.cluster.ledger_queries import count_instants, count_states, occurrences_of, runs_of, start_beats
from tests.cluster.processes import TOOLS, Cluster
from tests.cluster.test_up import StartUp, up, var
from tests.guardian import Guardian
from tests.servers import start_valkey

__all__ = ["up", "var"]

pytestmark = [pytest.mark.cluster]

QUEUE = "crowd"
TROUBLE = timedelta(seconds=15)  # Celery gives up on a result store after about six


@contextmanager
def out_of_memory(client: Redis) -> Iterator[None]:
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    yield
    client.config_set("maxmemory", 0)


@contextmanager
def read_only(client: Redis) -> Iterator[None]:
    client.replicaof("127.0.0.1", "1")  # nothing listens there: it stays as it is
    yield
    client.replicaof("NO", "ONE")


@contextmanager
def wrong_type(client: Redis) -> Iterator[None]:
    client.set(QUEUE, "not a list")
    yield
    client.delete(QUEUE)


@contextmanager
def wrong_password(client: Redis) -> Iterator[None]:
    """The password was changed: a process that connects again is refused."""
    client.config_set("requirepass", "another")
    for kind in ("normal", "pubsub"):
        client.client_kill_filter(_type=kind, skipme=True)
    yield
    client.config_set("requirepass", "")


def fleet() -> list[Job]:
    config: dict[str, Any] = {"overlap": "allow", "pool": "crowd", "queue": QUEUE, "misfire_grace": "1h"}
    make_pool("crowd", 100_000)
    single = [f"crowd-one-{number}" for number in range(4)]
    double = [f"crowd-two-{number}" for number in range(4)]
    every = "*/3 * * * * *"
    return [
        *insert_jobs(single, every, function="once", **config),
        *insert_jobs(double, every, function="once", tasks=2, mode="parallel", **config),
    ]


def wait_for(cluster: Cluster, until: datetime) -> None:
    seconds = (until - timezone.now()).total_seconds()
    cluster.wait_until(lambda: timezone.now() > until, timeout=seconds + 5, describe="the time to pass")


@pytest.mark.early
@pytest.mark.req("OCC-7", "TSK-3")
@pytest.mark.parametrize("trouble", [out_of_memory, read_only, wrong_type, wrong_password])
def test_a_broker_that_answers_with_errors_ends_no_process_and_loses_no_run(
    cluster: Cluster, trouble: Callable[[Redis], Any]
) -> None:
    cluster.apps = TOOLS
    cluster.variables["PUNCTUAL_LOST_AFTER"] = "10s"
    beats = start_beats(cluster, 2)
    worker = cluster.start_worker(concurrency=2, queues=QUEUE)
    jobs = fleet()
    cluster.wait_until(
        lambda: runs_of("crowd").filter(state="success").count() > len(jobs),
        timeout=60,
        describe="the first runs",
    )
    start = timezone.now()
    with queues.connect(cluster) as client, trouble(client):
        wait_for(cluster, start + TROUBLE)
        assert all(process.alive for process in (*beats, worker)), cluster.logs()
        logged = [line for beat in beats for line in beat.lines if "run.dispatch_failed" in line]
        assert logged, "the trouble is logged"
    end = timezone.now()
    cluster.wait_until(
        lambda: not occurrences_of("crowd", end=end).filter(finished_at=None).exists(),
        timeout=90,
        describe=lambda: f"{count_states(occurrences_of('crowd', end=end))}",
    )
    assert all(process.alive for process in (*beats, worker))
    expected = owed_instants(jobs, start, end)
    assert count_instants(occurrences_of("crowd", start=start, end=end)) == dict.fromkeys(expected, 1)
    done = Counter(run for (run,) in cluster.query("SELECT run_id FROM cluster_app_effect"))
    ids = set(runs_of("crowd").filter(occurrence__scheduled_for__lte=end).values_list("id", flat=True))
    assert {run: done[run] for run in ids} == dict.fromkeys(ids, 1)


@pytest.mark.alone
@pytest.mark.req("OPS-1", "OCC-7")
def test_the_whole_platform_stays_up_while_its_broker_answers_with_errors(
    up: StartUp, guardian: Guardian, cluster_folder: Path
) -> None:
    folder = cluster_folder / "broker-of-up"
    folder.mkdir()
    server = start_valkey(folder, guardian)
    running = up("--demo", "--beats", "2", "--concurrency", "2", BROKER_URL=server.url)
    running.wait_until_ready()
    running.wait_until(lambda: "alive, scheduled for" in running.text, what="a heartbeat")
    children = running.children()
    with Redis(unix_socket_path=str(folder / "valkey.sock")) as client:
        for trouble in (out_of_memory, read_only, wrong_password):
            with trouble(client):
                until = time.monotonic() + TROUBLE.total_seconds()
                running.wait_until(lambda until=until: time.monotonic() > until, what="time")  # type: ignore[misc]
                assert running.popen.poll() is None, running.text
            beats = running.text.count("alive, scheduled for")
            running.wait_until(
                lambda beats=beats: running.text.count("alive, scheduled for") > beats,  # type: ignore[misc]
                what=f"a heartbeat after {trouble.__name__}",
            )
    assert running.children() == children, "no process was started again"
    assert running.stop() == 0
    server.stop(guardian)
