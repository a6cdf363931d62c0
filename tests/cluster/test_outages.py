"""The broker gone for a minute, the database crashed again and again: late, never lost, never doubled."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs.models import Job
from occurrences.models import TaskRunQuerySet
from tests.cluster import queues
from tests.cluster.fleets import insert_jobs, make_pool, owed
from tests.cluster.ledgers import instants, rows, runs, start_beats, states
from tests.cluster.processes import TOOLS, Cluster, Process

pytestmark = [pytest.mark.cluster]

QUEUE = "crowd"
OUTAGE = timedelta(seconds=60)
WITHIN = timedelta(seconds=15)  # of the broker's return; the goal is "within seconds", on a busy machine too
BUSIEST = 0.5  # of one core: a busy loop takes all of it
CRASHES = (0.0, 1.0, 6.0)  # seconds the database stays away


def fleet(per_instant: int) -> list[Job]:
    """`per_instant` occurrences every third second; a fifth of the jobs fans out."""
    config: dict[str, Any] = {"overlap": "allow", "pool": "crowd", "queue": QUEUE, "misfire_grace": "1h"}
    make_pool("crowd", 100_000)
    wide = per_instant // 5
    single = [f"crowd-one-{number:03d}" for number in range(per_instant - wide)]
    double = [f"crowd-two-{number:03d}" for number in range(wide)]
    every = "*/3 * * * * *"
    return [
        *insert_jobs(single, every, function="once", **config),
        *insert_jobs(double, every, function="once", tasks=2, mode="parallel", **config),
    ]


def planned(cluster: Cluster, jobs: list[Job]) -> None:
    cluster.wait_until(
        lambda: rows("crowd").values("job").distinct().count() == len(jobs),
        timeout=30,
        describe="every job planned",
    )


def unsent(end: datetime) -> TaskRunQuerySet:
    return runs("crowd").filter(occurrence__scheduled_for__lte=end, dispatched_at=None)


def fired(end: datetime) -> bool:
    return not rows("crowd", end=end).filter(state="pending").exists()


def pass_by(cluster: Cluster, until: datetime) -> None:
    seconds = (until - timezone.now()).total_seconds()
    cluster.wait_until(lambda: timezone.now() > until, timeout=seconds + 5, describe="the time to pass")


def effort(beats: list[Process]) -> list[tuple[float, int]]:
    return [(beat.cpu_seconds(), len(beat.lines)) for beat in beats]


def assert_no_busy_loop(before: list[tuple[float, int]], after: list[tuple[float, int]], span: float) -> None:
    for (cpu, lines), (more_cpu, more_lines) in zip(before, after, strict=True):
        assert (more_cpu - cpu) / span < BUSIEST
        assert (more_lines - lines) / span < 10, "log lines a second"


@pytest.mark.req("OCC-7")
def test_what_falls_due_in_a_minute_without_broker_is_sent_once_within_seconds_of_its_return(
    cluster: Cluster,
) -> None:
    cluster.apps = TOOLS
    beats = start_beats(cluster, 2)
    jobs = fleet(per_instant=50)
    planned(cluster, jobs)

    cluster.kill_broker()
    start = timezone.now()
    before = effort(beats)
    pass_by(cluster, start + OUTAGE)
    assert_no_busy_loop(before, effort(beats), OUTAGE.total_seconds())
    for beat in beats:
        assert any("run.dispatch_failed" in line for line in beat.lines), "an outage is said"
    end = timezone.now()
    cluster.restart_broker()
    returned = timezone.now()
    cluster.wait_until(
        lambda: fired(end) and not unsent(end).exists(),
        timeout=60,
        describe=lambda: f"all sent; {unsent(end).count()} are not, {states(rows('crowd', end=end))}",
    )
    took = timezone.now() - returned

    expected = owed(jobs, start, end)
    assert len(expected) >= 1000
    assert instants(rows("crowd", start=start, end=end)) == dict.fromkeys(expected, 1)
    sent = queues.waiting_runs(cluster, QUEUE)
    ids = set(
        runs("crowd").filter(occurrence__in=rows("crowd", start=start, end=end)).values_list("id", flat=True)
    )
    assert Counter({run: sent[run] for run in ids}) == dict.fromkeys(ids, 1)
    assert took < WITHIN


@pytest.mark.parametrize("cluster", ["own_postgres"], indirect=True)
@pytest.mark.req("OCC-7")
@pytest.mark.req("OCC-2")
def test_a_database_that_crashes_in_the_middle_of_ticks_costs_nothing_but_time(cluster: Cluster) -> None:
    cluster.apps = TOOLS
    beats = start_beats(cluster, 3)
    jobs = fleet(per_instant=20)
    planned(cluster, jobs)
    start = timezone.now()
    for number, away in enumerate(CRASHES):
        pass_by(cluster, start + timedelta(seconds=4 * (number + 1)))
        cluster.crash_postgres()
        before, since = effort(beats), timezone.now()
        pass_by(cluster, since + timedelta(seconds=away))
        if away > 1:
            assert_no_busy_loop(before, effort(beats), away)
        cluster.restart_postgres()
    pass_by(cluster, timezone.now() + timedelta(seconds=3))
    end = timezone.now()
    # The work begins only now: what the outages did to beats is the question here, not to workers.
    cluster.start_worker(concurrency=2, queues=QUEUE)
    cluster.wait_until(
        lambda: not rows("crowd", end=end).filter(finished_at=None).exists(),
        timeout=90,
        describe=lambda: f"all over; {states(rows('crowd', end=end))}",
    )

    found = rows("crowd", start=start, end=end)
    assert instants(found) == dict.fromkeys(owed(jobs, start, end), 1)
    assert states(found) == {"completed": len(owed(jobs, start, end))}
    ids = set(runs("crowd").filter(occurrence__in=rows("crowd", end=end)).values_list("id", flat=True))
    done = Counter(run for (run,) in cluster.query("SELECT run_id FROM cluster_app_effect"))
    assert {run: done[run] for run in ids} == dict.fromkeys(ids, 1)
    assert all(beat.alive for beat in beats)
    assert cluster.log_lines("traceback", "deadlock") == []
