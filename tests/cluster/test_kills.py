"""Workers and their pool processes are killed at random while hundreds of occurrences run."""

import os
import random
import signal
from collections import Counter

import pytest

from punctual.occurrences.models import Attempt
from tests.cluster.ledger_queries import count_states, occurrences_of, runs_of
from tests.cluster.processes import ALIAS, Cluster, Process
from tests.cluster.scenarios import insert_due_jobs, prepare

pytestmark = [pytest.mark.cluster]

SEED = 20260106
OCCURRENCES = 500
KILLS = ["child", "child", "parent", "child", "parent", "all", "child", "parent", "all"]
WORKERS, PROCESSES = 2, 2
TIMEOUT = 90.0


def finished() -> int:
    return occurrences_of("k-").filter(finished_at__isnull=False).count()


def kill(cluster: Cluster, what: str, workers: list[Process], chance: random.Random) -> None:
    """Kill a pool process, a worker's parent process or all workers; replace killed workers at once."""
    victim = chance.randrange(len(workers))
    match what:
        case "child":
            cluster.kill_child(workers[victim], chance.randrange(len(workers[victim].children)))
            return
        case "parent":
            chosen = [victim]
            workers[victim].ended = True
            os.kill(workers[victim].popen.pid, signal.SIGKILL)
        case "all":
            chosen = list(range(len(workers)))
    for number in chosen:
        cluster.kill(workers[number])
        workers[number] = cluster.start_worker(concurrency=PROCESSES)


@pytest.mark.early
@pytest.mark.req("TSK-3")
@pytest.mark.req("EXE-1")
def test_random_kills_lose_nothing_and_double_no_success(cluster: Cluster) -> None:
    prepare(cluster, PUNCTUAL_LEASE="4s", PUNCTUAL_LOST_AFTER="5s")
    chance = random.Random(SEED)  # noqa: S311 - repeatable, not secret
    workers = [cluster.start_worker(concurrency=PROCESSES) for _ in range(WORKERS)]
    config = {"mode": "parallel", "retry": {"max_retries": 30, "interval": "1ms"}}
    insert_due_jobs(*(f"k-{number}" for number in range(OCCURRENCES)), config=config, short=3)
    share = OCCURRENCES * 0.8 / len(KILLS)
    for number, what in enumerate(KILLS, start=1):
        wait_finished(cluster, round(number * share))
        kill(cluster, what, workers, chance)
    wait_finished(cluster, OCCURRENCES)
    assert_accounted_for(cluster)


def wait_finished(cluster: Cluster, count: int) -> None:
    cluster.wait_until(
        lambda: finished() >= count,
        timeout=TIMEOUT,
        describe=lambda: f"seed {SEED}: {finished()} of {count} finished; {open_runs()}",
    )


def open_runs() -> object:
    rows = runs_of("k-").filter(occurrence__finished_at=None)
    return list(rows.values_list("state", "attempts_made", "lease_until", "dispatched_at")[:20])


def assert_accounted_for(cluster: Cluster) -> None:
    assert count_states(occurrences_of("k-")) == {"completed": OCCURRENCES}
    all_runs = runs_of("k-")
    assert Counter(all_runs.values_list("state", flat=True)) == {"success": OCCURRENCES * 3}
    attempts = Attempt.objects.using(ALIAS).filter(run__in=all_runs)
    ends = Counter(attempts.values_list("run_id", "state"))
    assert set(attempts.values_list("state", flat=True)) <= {"success", "lost"}
    assert [count for (_, state), count in ends.items() if state == "success"] == [1] * OCCURRENCES * 3
    numbers = Counter(attempts.values_list("run_id", flat=True))
    assert numbers == dict(all_runs.values_list("id", "attempts_made")), "one row for each attempt made"
    # Every start that a function noted is an attempt of the ledger, and each attempt started at most once.
    begun = Counter(cluster.query("SELECT run_id, attempt FROM cluster_app_effect WHERE source LIKE 'k-%%'"))
    known = set(attempts.values_list("run_id", "number"))
    assert set(begun) <= known
    assert set(begun.values()) == {1}
    assert len(known) > OCCURRENCES * 3, "the kills hit running attempts"
