"""The broker loses or repeats what it likes: members, callbacks, counters. The rows decide."""

import time

import pytest
from redis import Redis

from occurrences.models import TaskRun
from tests.cluster import queues
from tests.cluster.contracts import (
    attempts,
    due,
    noted,
    outcome,
    prepare,
    run_states,
    wait_noted,
    wait_settled,
)
from tests.cluster.processes import ALIAS, Cluster

pytestmark = [pytest.mark.cluster]

PARALLEL = {"mode": "parallel", "queue": "work"}


def client(cluster: Cluster) -> Redis:
    return Redis(unix_socket_path=str(cluster.folder / "valkey.sock"))


@pytest.mark.req("EXE-1")
@pytest.mark.req("TSK-3")
def test_an_occurrence_settles_without_its_chord_s_member_counter_or_callback(cluster: Cluster) -> None:
    prepare(cluster, PUNCTUAL_LOST_AFTER="3s")
    # Nobody listens to `default`, where the callbacks go: each of them is lost.
    due("member", config=PARALLEL, quick=3)
    cluster.wait_until(lambda: queues.length(cluster, "work") == 3, timeout=30, describe="three messages")
    with client(cluster) as redis:
        assert redis.lpop("work") is not None, "one member never arrives"
    due("counter", config=PARALLEL, quick=3)
    cluster.wait_until(lambda: queues.length(cluster, "work") == 5, timeout=30, describe="five messages")
    with client(cluster) as redis:
        counters = [key for key in redis.keys("*") if not key.startswith((b"work", b"_kombu", b"unacked"))]
        assert redis.delete(*counters) > 0, "what a chord counts with is gone"
    due("callback", config=PARALLEL, quick=3)
    cluster.start_worker(concurrency=2, queues="work")
    wait_settled(cluster, "member", "counter", "callback")
    for name in ("member", "counter", "callback"):
        assert (outcome(name), run_states(name)) == ("completed", {"success": 3})
        assert [item.state for item in attempts(name)] == ["success"] * 3
        assert len(noted(cluster, f"{name}/end")) == 3
    cluster.wait_until(
        lambda: queues.length(cluster, "default") > 0, timeout=30, describe="a callback that nobody takes"
    )


@pytest.mark.req("OCC-7")
def test_a_message_that_comes_again_and_again_has_one_effect(cluster: Cluster) -> None:
    prepare(cluster, BROKER_VISIBILITY_TIMEOUT="1")
    due("long", metadata={"seconds": "30"}, lasts=1)
    cluster.wait_until(lambda: queues.length(cluster, "default") == 1, timeout=30, describe="a message")
    with client(cluster) as redis:
        (message,) = redis.lrange("default", 0, -1)
        cluster.start_worker(concurrency=2)
        wait_noted(cluster, "long/begin")
        # Long after the visibility timeout another worker starts, and looks for lost messages first of all.
        cluster.start_worker(concurrency=1)
        assert redis.hkeys("unacked") == [], (
            "the ledger keeps the book: nothing is given out for a second time"
        )
        for _ in range(5):
            redis.lpush("default", message)
        cluster.wait_until(
            lambda: queues.length(cluster, "default") == 0, timeout=20, describe="each of them taken"
        )
    assert outcome("long") == "", "it is still running"
    wait_settled(cluster, "long")
    assert [item.state for item in attempts("long")] == ["success"]
    assert (len(noted(cluster, "long/begin")), len(noted(cluster, "long/end"))) == (1, 1)


@pytest.mark.req("OCC-7")
def test_what_a_dead_worker_had_taken_comes_again_though_the_queue_is_never_empty(cluster: Cluster) -> None:
    prepare(cluster, PUNCTUAL_LOST_AFTER="3s")
    due("taken", quick=1)
    cluster.wait_until(lambda: queues.length(cluster, "default") == 1, timeout=30, describe="its message")
    with client(cluster) as redis:
        assert redis.rpop("default") is not None, "taken by somebody who never says a word again"
    time.sleep(6)  # what is sent at about the same time may be in any order
    due(*(f"waiting {number}" for number in range(3)), quick=1)
    cluster.wait_until(lambda: queues.length(cluster, "default") == 4, timeout=30, describe="all of them")
    again = TaskRun.objects.using(ALIAS).get(occurrence__job__name="taken").pk
    assert queues.waiting_runs(cluster, "default")[again] == 1
    time.sleep(6)
    assert queues.length(cluster, "default") == 4, "those that wait are not sent again"
    cluster.start_worker(concurrency=1)
    wait_settled(cluster, "taken", "waiting 0", "waiting 1", "waiting 2")
    assert len(noted(cluster, "taken/end")) == 1
