"""The row of a worker shows whether it runs, has stopped or has died."""

import time

import pytest

from punctual.execution.models import Process
from punctual.execution.supervision.presence import RENEWAL_INTERVAL, SILENT_AFTER
from tests.cluster.processes import ALIAS, Cluster, Pool

pytestmark = [pytest.mark.cluster, pytest.mark.req("OPS-2")]


def seen_at() -> dict[str, object]:
    return {
        name.partition("@")[0]: at
        for name, at in Process.objects.using(ALIAS).workers().values_list("name", "seen_at")
    }


@pytest.mark.parametrize("pool", ["prefork", "solo"])
def test_the_rows_distinguish_idle_stopped_and_dead_workers(cluster: Cluster, pool: Pool) -> None:
    stops = cluster.start_worker(concurrency=2, pool=pool)
    dies = cluster.start_worker(concurrency=2, pool=pool)
    cluster.wait_until(lambda: len(seen_at()) == 2, timeout=60, describe=seen_at)
    first = seen_at()
    cluster.wait_until(
        lambda: all(seen_at()[name] != at for name, at in first.items()), timeout=30, describe=seen_at
    )
    cluster.stop(stops)
    assert set(seen_at()) == {dies.name}, "the stopped worker deleted its row"

    cluster.kill(dies)
    left = seen_at()
    time.sleep(RENEWAL_INTERVAL * 1.5)
    assert seen_at() == left, "the row of a dead worker is not renewed"
    assert left
    assert SILENT_AFTER.total_seconds() > RENEWAL_INTERVAL
