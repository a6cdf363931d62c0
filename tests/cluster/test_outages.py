"""A broker outage of a minute, and repeated crashes of the database: runs are late, not lost or doubled."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from punctual.jobs.models import Job
from punctual.occurrences.querysets import TaskRunQuerySet
from tests.cluster import queues
from tests.cluster.job_rows import insert_jobs, make_pool, owed_instants
from tests.cluster.ledger_queries import count_instants, count_states, occurrences_of, runs_of, start_beats
from tests.cluster.processes import TOOLS, Cluster, Process

pytestmark = [pytest.mark.cluster]

QUEUE = "crowd"
OUTAGE = timedelta(seconds=60)
MAX_DELAY = timedelta(seconds=15)  # after the broker is back; "within seconds", also on a busy machine
MAX_CPU = 0.5  # of one core: a busy loop takes all of it
CRASHES = (0.0, 1.0, 6.0)  # seconds until the database is started again


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


def wait_until_planned(cluster: Cluster, jobs: list[Job]) -> None:
    cluster.wait_until(
        lambda: occurrences_of("crowd").values("job").distinct().count() == len(jobs),
        timeout=30,
        describe="every job planned",
    )


def unsent(end: datetime) -> TaskRunQuerySet:
    return runs_of("crowd").filter(occurrence__scheduled_for__lte=end, dispatched_at=None)


def all_fired(end: datetime) -> bool:
    return not occurrences_of("crowd", end=end).filter(state="pending").exists()


def wait_until_time(cluster: Cluster, until: datetime) -> None:
    seconds = (until - timezone.now()).total_seconds()
    cluster.wait_until(lambda: timezone.now() > until, timeout=seconds + 5, describe="the time to pass")


def effort(beats: list[Process]) -> list[tuple[float, int]]:
    return [(beat.cpu_seconds(), len(beat.lines)) for beat in beats]


def assert_no_busy_loop(before: list[tuple[float, int]], after: list[tuple[float, int]], span: float) -> None:
    for (cpu, lines), (more_cpu, more_lines) in zip(before, after, strict=True):
        assert (more_cpu - cpu) / span < MAX_CPU
        assert (more_lines - lines) / span < 10, "log lines a second"


@pytest.mark.early
@pytest.mark.req("OCC-7")
def test_runs_due_during_a_broker_outage_are_sent_within_seconds_of_its_end_and_done_once(
    cluster: Cluster,
) -> None:
    cluster.apps = TOOLS
    cluster.variables["PUNCTUAL_LOST_AFTER"] = "10m"  # unsent messages are resent, lost ones are another test
    beats = start_beats(cluster, 2)
    jobs = fleet(per_instant=50)
    wait_until_planned(cluster, jobs)

    cluster.kill_broker()
    start = timezone.now()
    before = effort(beats)
    wait_until_time(cluster, start + OUTAGE)
    assert_no_busy_loop(before, effort(beats), OUTAGE.total_seconds())
    for beat in beats:
        assert any("run.dispatch_failed" in line for line in beat.lines), "the outage is logged"
    end = timezone.now()
    cluster.restart_broker()
    returned, failed = timezone.now(), failures(beats)
    cluster.wait_until(
        lambda: all_fired(end) and not unsent(end).exists(),
        timeout=60,
        describe=lambda: (
            f"unsent runs: {unsent(end).count()}; {count_states(occurrences_of('crowd', end=end))}"
        ),
    )
    assert timezone.now() - returned < MAX_DELAY

    expected = owed_instants(jobs, start, end)
    assert len(expected) >= 1000
    assert count_instants(occurrences_of("crowd", start=start, end=end)) == dict.fromkeys(expected, 1)
    ids = run_ids(start, end)
    sent = queues.waiting_runs(cluster, QUEUE)
    assert all(sent[run] for run in ids)
    # A broker that answers too late may have taken the messages; they are sent again, and done once.
    doubled = [run for run in ids if sent[run] > 1]
    assert not doubled or failures(beats) > failed
    cluster.start_worker(concurrency=2, queues=QUEUE)
    wait_until_finished(cluster, end)
    assert_done_once(cluster, ids)


def run_ids(start: datetime | None, end: datetime) -> set[UUID]:
    runs = runs_of("crowd").filter(occurrence__in=occurrences_of("crowd", start=start, end=end))
    return set(runs.values_list("id", flat=True))


def failures(beats: list[Process]) -> int:
    return sum("run.dispatch_failed" in line for beat in beats for line in beat.lines)


def wait_until_finished(cluster: Cluster, end: datetime) -> None:
    cluster.wait_until(
        lambda: not occurrences_of("crowd", end=end).filter(finished_at=None).exists(),
        timeout=90,
        describe=lambda: f"{count_states(occurrences_of('crowd', end=end))}",
    )


def assert_done_once(cluster: Cluster, ids: set[UUID]) -> None:
    done = Counter(run for (run,) in cluster.query("SELECT run_id FROM cluster_app_effect"))
    assert {run: done[run] for run in ids} == dict.fromkeys(ids, 1)


@pytest.mark.early
@pytest.mark.parametrize("cluster", ["own_postgres"], indirect=True)
@pytest.mark.req("OCC-7")
@pytest.mark.req("OCC-2")
def test_database_crashes_during_ticks_only_delay_runs(cluster: Cluster) -> None:
    cluster.apps = TOOLS
    beats = start_beats(cluster, 3)
    jobs = fleet(per_instant=20)
    wait_until_planned(cluster, jobs)
    start = timezone.now()
    for number, away in enumerate(CRASHES):
        wait_until_time(cluster, start + timedelta(seconds=4 * (number + 1)))
        cluster.crash_postgres()
        before, since = effort(beats), timezone.now()
        wait_until_time(cluster, since + timedelta(seconds=away))
        if away > 1:
            assert_no_busy_loop(before, effort(beats), away)
        cluster.restart_postgres()
    wait_until_time(cluster, timezone.now() + timedelta(seconds=3))
    end = timezone.now()
    # The worker starts only now: this test is about the effect of outages on beats.
    cluster.start_worker(concurrency=2, queues=QUEUE)
    wait_until_finished(cluster, end)

    occurrences = occurrences_of("crowd", start=start, end=end)
    assert count_instants(occurrences) == dict.fromkeys(owed_instants(jobs, start, end), 1)
    assert count_states(occurrences) == {"completed": len(owed_instants(jobs, start, end))}
    assert_done_once(cluster, run_ids(None, end))
    assert all(beat.alive for beat in beats)
    assert cluster.log_lines("traceback", "deadlock") == []
