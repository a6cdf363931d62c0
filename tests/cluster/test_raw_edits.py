"""Changes by raw SQL take effect within a second while real beats run."""

from statistics import median

import pytest
from django.utils import timezone

from tests.cluster.job_rows import insert_jobs
from tests.cluster.ledger_queries import occurrences_of, start_beats
from tests.cluster.processes import TOOLS, Cluster

pytestmark = [pytest.mark.cluster]

ROUNDS = 7
FAR = "0 0 1 1 *"
NEAR = "* * * * * *"


def edit(cluster: Cluster, **columns: object) -> None:
    ((column, value),) = columns.items()
    sql = f"UPDATE punctual_job SET {column} = %s WHERE name = 'edited'"  # noqa: S608 - both parts are ours
    assert cluster.execute(sql, [value]) == 1


def seconds_until(cluster: Cluster, *, planned: bool) -> float:
    """Seconds from the commit of the edit until the planned occurrences reflect it."""
    since = timezone.now()
    soon = occurrences_of("edited").filter(
        state="pending", scheduled_for__lte=since.replace(year=since.year + 1)
    )
    many = 30  # of the sixty in the next minute
    cluster.wait_until(
        lambda: (soon.count() > many) is planned,
        timeout=15,
        describe=lambda: f"planned={planned}, {soon.count()} pending",
    )
    return (timezone.now() - since).total_seconds()


@pytest.mark.alone
@pytest.mark.parametrize("cluster", ["postgres", "sqlite"], indirect=True)
@pytest.mark.req("OCC-8")
def test_a_change_by_raw_sql_takes_effect_within_a_second(cluster: Cluster) -> None:
    cluster.apps = TOOLS
    start_beats(cluster, 2)
    insert_jobs(["edited"], FAR, function="nothing", overlap="allow", queue="crowd")

    took = []
    for _ in range(ROUNDS):
        edit(cluster, schedule=NEAR)
        took.append(seconds_until(cluster, planned=True))
        edit(cluster, enabled=False)
        took.append(seconds_until(cluster, planned=False))
        edit(cluster, enabled=True)
        took.append(seconds_until(cluster, planned=True))
        edit(cluster, schedule=FAR)
        took.append(seconds_until(cluster, planned=False))

    assert median(took) < 1, "ticks are at most a second apart"

    edit(cluster, schedule=NEAR)
    edit(cluster, paused_at=timezone.now())
    paused = timezone.now()
    cluster.wait_until(
        lambda: occurrences_of("edited", start=paused).exclude(state="pending").count() >= 3,
        timeout=15,
        describe="three instants of the paused job",
    )
    edit(cluster, paused_at=None)
    resumed = timezone.now()
    cluster.wait_until(
        lambda: occurrences_of("edited", start=resumed).exclude(state="pending").count() >= 2,
        timeout=15,
        describe="two instants after that",
    )
    paused_rows = occurrences_of("edited", start=paused, end=resumed).exclude(state="pending")
    assert set(paused_rows.values_list("state", "reason")) == {("skipped", "paused")}
    after = occurrences_of("edited", start=resumed).exclude(state="pending")
    assert set(after.values_list("state", flat=True)) == {"dispatched"}
