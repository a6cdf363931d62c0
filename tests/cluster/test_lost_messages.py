"""The broker loses or repeats what it likes: members, callbacks, counters. The rows decide."""

import pytest
from redis import Redis

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
from tests.cluster.processes import Cluster

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
    cluster.start_worker(concurrency=2)
    due("long", metadata={"seconds": "30"}, lasts=1)
    wait_noted(cluster, "long/begin")
    with client(cluster) as redis:
        first = set(redis.hkeys("unacked"))
        assert first
        cluster.start_worker(concurrency=1)  # who starts looks for lost messages first of all
        cluster.wait_until(
            lambda: not first & set(redis.hkeys("unacked")),
            timeout=28,
            describe="the broker takes the message for lost and gives it out again",
        )
    assert outcome("long") == "", "it is still running"
    wait_settled(cluster, "long")
    assert [item.state for item in attempts("long")] == ["success"]
    assert (len(noted(cluster, "long/begin")), len(noted(cluster, "long/end"))) == (1, 1)
