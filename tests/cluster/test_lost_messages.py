"""The broker loses or repeats messages and chord counters; the rows decide."""

import time

import pytest
from redis import Redis

from punctual.occurrences.models import TaskRun
from tests.cluster import queues
from tests.cluster.processes import ALIAS, Cluster
from tests.cluster.scenarios import (
    attempts,
    insert_due_jobs,
    note_times,
    outcome,
    prepare,
    release,
    run_states,
    wait_for_note,
    wait_until_settled,
)

pytestmark = [pytest.mark.cluster]

PARALLEL = {"mode": "parallel", "queue": "work"}


def client(cluster: Cluster) -> Redis:
    return Redis(unix_socket_path=str(cluster.folder / "valkey.sock"))


@pytest.mark.req("EXE-1")
@pytest.mark.req("TSK-3")
def test_an_occurrence_settles_without_its_chord_s_member_counter_or_callback(cluster: Cluster) -> None:
    prepare(cluster, PUNCTUAL_LOST_AFTER="3s")
    # No worker consumes `default`, the queue of the callbacks: all callbacks are lost.
    insert_due_jobs("member", config=PARALLEL, quick=3)
    cluster.wait_until(lambda: queues.length(cluster, "work") == 3, timeout=30, describe="three messages")
    with client(cluster) as redis:
        assert redis.lpop("work") is not None, "one member never arrives"
    insert_due_jobs("counter", config=PARALLEL, quick=3)
    cluster.wait_until(lambda: queues.length(cluster, "work") == 5, timeout=30, describe="five messages")
    with client(cluster) as redis:
        counters = [key for key in redis.keys("*") if not key.startswith((b"work", b"_kombu", b"unacked"))]
        assert redis.delete(*counters) > 0, "the chord counters are deleted"
    insert_due_jobs("callback", config=PARALLEL, quick=3)
    cluster.start_worker(concurrency=2, queues="work")
    wait_until_settled(cluster, "member", "counter", "callback")
    for name in ("member", "counter", "callback"):
        assert (outcome(name), run_states(name)) == ("completed", {"success": 3})
        assert [item.state for item in attempts(name)] == ["success"] * 3
        assert len(note_times(cluster, f"{name}/end")) == 3
    cluster.wait_until(
        lambda: queues.length(cluster, "default") > 0, timeout=30, describe="a callback without a consumer"
    )


@pytest.mark.req("OCC-7")
def test_a_message_delivered_repeatedly_has_one_effect(cluster: Cluster) -> None:
    prepare(cluster, BROKER_VISIBILITY_TIMEOUT="1")
    insert_due_jobs("long", until_released=1)
    cluster.wait_until(lambda: queues.length(cluster, "default") == 1, timeout=30, describe="a message")
    with client(cluster) as redis:
        (message,) = redis.lrange("default", 0, -1)
        cluster.start_worker(concurrency=2)
        wait_for_note(cluster, "long/begin")
        # After the visibility timeout another worker starts, and first restores unacknowledged messages.
        second = cluster.start_worker(concurrency=1)
        cluster.wait_until(
            lambda: any(" ready." in line for line in second.lines), timeout=60, describe="another worker"
        )
        assert redis.hkeys("unacked") == [], (
            "the broker tracks no unacknowledged message: none is delivered twice"
        )
        for _ in range(5):
            redis.lpush("default", message)
        cluster.wait_until(
            lambda: queues.length(cluster, "default") == 0, timeout=20, describe="each of them taken"
        )
    assert outcome("long") == "", "it is still running"
    release(cluster, "long")
    wait_until_settled(cluster, "long")
    assert [item.state for item in attempts("long")] == ["success"]
    assert (len(note_times(cluster, "long/begin")), len(note_times(cluster, "long/end"))) == (1, 1)


@pytest.mark.req("OCC-7")
def test_a_message_lost_with_its_worker_is_resent_though_the_queue_is_never_empty(cluster: Cluster) -> None:
    prepare(cluster, PUNCTUAL_LOST_AFTER="3s")
    insert_due_jobs("taken", quick=1)
    cluster.wait_until(lambda: queues.length(cluster, "default") == 1, timeout=30, describe="its message")
    with client(cluster) as redis:
        assert redis.rpop("default") is not None, "consumed and never acknowledged"
    time.sleep(6)  # messages sent at about the same time may be in any order
    insert_due_jobs(*(f"waiting {number}" for number in range(3)), quick=1)
    cluster.wait_until(lambda: queues.length(cluster, "default") == 4, timeout=30, describe="all of them")
    again = TaskRun.objects.using(ALIAS).get(occurrence__job__name="taken").pk
    assert queues.waiting_runs(cluster, "default")[again] == 1
    time.sleep(6)
    assert queues.length(cluster, "default") == 4, "runs whose messages wait are not resent"
    cluster.start_worker(concurrency=1)
    wait_until_settled(cluster, "taken", "waiting 0", "waiting 1", "waiting 2")
    assert len(note_times(cluster, "taken/end")) == 1
