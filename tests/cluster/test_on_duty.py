"""Whether an idle worker is there can be told from its row: while it runs, when it stops, when it dies."""

import time

import pytest

from execution.models import Worker
from execution.presence import RENEWED_EVERY, SILENT_AFTER
from tests.cluster.processes import ALIAS, Cluster, Pool

pytestmark = [pytest.mark.cluster, pytest.mark.req("OPS-2")]


def seen() -> dict[str, object]:
    return {
        name.partition("@")[0]: at for name, at in Worker.objects.using(ALIAS).values_list("name", "seen_at")
    }


@pytest.mark.parametrize("pool", ["prefork", "solo"])
def test_an_idle_worker_is_told_from_one_that_stopped_and_one_that_died(cluster: Cluster, pool: Pool) -> None:
    stops = cluster.start_worker(concurrency=2, pool=pool)
    dies = cluster.start_worker(concurrency=2, pool=pool)
    cluster.wait_until(lambda: len(seen()) == 2, timeout=60, describe=seen)
    first = seen()
    cluster.wait_until(
        lambda: all(seen()[name] != at for name, at in first.items()), timeout=30, describe=seen
    )
    cluster.stop(stops)
    assert set(seen()) == {dies.name}, "it signed off"

    cluster.kill(dies)
    left = seen()
    time.sleep(RENEWED_EVERY * 1.5)
    assert seen() == left, "nobody renews the row of a dead worker"
    assert left
    assert SILENT_AFTER.total_seconds() > RENEWED_EVERY
