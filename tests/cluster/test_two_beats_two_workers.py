"""Two beats and two workers: each instant and each run happens once, even if a beat is killed."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from punctual import schedules
from punctual.execution.models import Process as ProcessRow
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import AttemptState, OccurrenceState, RunState
from tests.cluster.processes import ALIAS, Cluster, Process

pytestmark = [pytest.mark.cluster]

SCHEDULES = {"each-second": "* * * * * *", "fan-out": "*/2 * * * * *", "in-order": "*/3 * * * * *"}
TASKS = {"each-second": 1, "fan-out": 3, "in-order": 3}
WINDOW = timedelta(seconds=12)
START_TIMEOUT = 60.0
DRAIN_TIMEOUT = 90.0  # well beyond a lease: runs of a killed process must have been recovered

both_databases = pytest.mark.parametrize("cluster", ["postgres", "sqlite"], indirect=True)


def start(cluster: Cluster) -> tuple[Process, Process]:
    """Start two workers and two beats; return the beats when every job is planned."""
    for _ in range(2):
        cluster.start_worker(concurrency=1)
    beats = cluster.start_beat(), cluster.start_beat()
    cluster.wait_until(
        lambda: ProcessRow.objects.using(ALIAS).beats().count() == 2 and planned_jobs() == set(SCHEDULES),
        timeout=START_TIMEOUT,
        describe="two beats signed in and every job planned",
    )
    return beats


def planned_jobs() -> set[str]:
    return set(Occurrence.objects.using(ALIAS).values_list("job__name", flat=True))


def expected_instants(job: str, start: datetime, end: datetime) -> list[datetime]:
    """The instants of the window by the schedule's text, computed by the pure functions only."""
    return list(schedules.parse(SCHEDULES[job], reference=start).between(start, end))


def settled(until: datetime) -> bool:
    """Whether every occurrence up to `until` has ended."""
    rows = Occurrence.objects.using(ALIAS).filter(scheduled_for__lte=until)
    return not rows.filter(finished_at=None).exists()


def unsettled(until: datetime) -> object:
    rows = Occurrence.objects.using(ALIAS).filter(scheduled_for__lte=until, finished_at=None)
    return list(rows.values_list("job__name", "scheduled_for", "state", "runs__state"))


def wait_for_window(cluster: Cluster, start: datetime, end: datetime) -> None:
    cluster.wait_until(
        lambda: timezone.now() > end and settled(end),
        timeout=(end - timezone.now()).total_seconds() + DRAIN_TIMEOUT,
        describe=lambda: f"open occurrences up to {end}: {unsettled(end)}",
    )


def whole_second(instant: datetime) -> datetime:
    return instant.replace(microsecond=0)


def assert_each_instant_once(start: datetime, end: datetime) -> None:
    rows = Occurrence.objects.using(ALIAS).filter(scheduled_for__gt=start, scheduled_for__lte=end)
    for job in SCHEDULES:
        occurrences = rows.filter(job__name=job).order_by("scheduled_for")
        assert list(occurrences.values_list("scheduled_for", flat=True)) == expected_instants(job, start, end)
    outcomes = Counter(rows.values_list("job__name", "state", "cause"))
    assert outcomes == {
        (job, OccurrenceState.COMPLETED, "schedule"): len(expected_instants(job, start, end))
        for job in SCHEDULES
    }


def assert_each_run_once(cluster: Cluster, start: datetime, end: datetime) -> None:
    runs = TaskRun.objects.using(ALIAS).filter(
        occurrence__scheduled_for__gt=start, occurrence__scheduled_for__lte=end
    )
    expected = {job: TASKS[job] * len(expected_instants(job, start, end)) for job in SCHEDULES}
    assert Counter(runs.values_list("occurrence__job__name", flat=True)) == expected
    assert set(runs.values_list("state", flat=True)) == {RunState.SUCCESS}
    successes = Attempt.objects.using(ALIAS).filter(run__in=runs, state=AttemptState.SUCCESS)
    ids = set(runs.values_list("id", flat=True))
    assert Counter(successes.values_list("run_id", flat=True)) == dict.fromkeys(ids, 1)


def effects(cluster: Cluster, runs: Iterable[object]) -> Counter[object]:
    """How often each run wrote its row."""
    run_ids = {str(id_).replace("-", "") for id_ in runs}
    rows = cluster.query("SELECT run_id FROM cluster_app_effect WHERE run_id IS NOT NULL")
    return Counter(id_ for (value,) in rows if (id_ := str(value).replace("-", "")) in run_ids)


def assert_each_effect_once(cluster: Cluster, start: datetime, end: datetime) -> None:
    runs = TaskRun.objects.using(ALIAS).filter(
        occurrence__scheduled_for__gt=start, occurrence__scheduled_for__lte=end
    )
    ids = {str(id_).replace("-", "") for id_ in runs.values_list("id", flat=True)}
    assert effects(cluster, ids) == dict.fromkeys(ids, 1)


def assert_in_order(start: datetime, end: datetime) -> None:
    """A sequential job's task starts after the one before it has finished."""
    rows = TaskRun.objects.using(ALIAS).filter(
        occurrence__job__name="in-order",
        occurrence__scheduled_for__gt=start,
        occurrence__scheduled_for__lte=end,
    )
    runs = list(rows.order_by("occurrence_id", "position"))
    assert [run.position for run in runs[:3]] == [0, 1, 2]
    for before, after in pairwise(runs):
        if before.occurrence_id == after.occurrence_id:
            assert before.finished_at is not None
            assert after.started_at is not None
            assert before.finished_at <= after.started_at


@both_databases
@pytest.mark.req("OCC-2")
@pytest.mark.req("EXE-1")
def test_every_instant_and_every_run_happens_once(cluster: Cluster) -> None:
    start(cluster)
    begin = whole_second(timezone.now())
    end = begin + WINDOW
    wait_for_window(cluster, begin, end)
    assert_each_instant_once(begin, end)
    assert_each_run_once(cluster, begin, end)
    assert_each_effect_once(cluster, begin, end)
    assert_in_order(begin, end)
    assert cluster.log_lines("locked", "deadlock", "traceback") == []


@both_databases
@pytest.mark.req("OCC-2")
@pytest.mark.req("TSK-3")
def test_killing_a_beat_loses_nothing(cluster: Cluster) -> None:
    victim, _ = start(cluster)
    begin = whole_second(timezone.now())
    middle, end = begin + WINDOW / 2, begin + WINDOW
    cluster.wait_until(lambda: timezone.now() > middle, timeout=30, describe="half the window")
    cluster.kill(victim)
    wait_for_window(cluster, begin, end)
    assert_each_instant_once(begin, end)
    assert_each_run_once(cluster, begin, end)
    assert_each_effect_once(cluster, begin, end)


@both_databases
@pytest.mark.req("OCC-10")
def test_a_periodic_task_is_sent_once_per_interval_by_two_beats(cluster: Cluster) -> None:
    interval = 2
    # In bulk: django-celery-beat's signals would write to the default database.
    every = IntervalSchedule(id=1, every=interval, period=IntervalSchedule.SECONDS)
    IntervalSchedule.objects.using(ALIAS).bulk_create([every])
    periodic = PeriodicTask(name="ping", task="cluster.ping", interval=every)
    PeriodicTask.objects.using(ALIAS).bulk_create([periodic])

    before = timezone.now()
    beats = start(cluster)
    begin = timezone.now()
    cluster.wait_until(lambda: timezone.now() > begin + WINDOW, timeout=60, describe="the window to pass")
    for beat in beats:
        cluster.stop(beat)
    after = timezone.now()

    sent = PeriodicTask.objects.using(ALIAS).get(name="ping").total_run_count
    assert WINDOW.total_seconds() / interval * 0.7 <= sent, "an interval was left out"
    assert sent <= (after - before).total_seconds() / interval + 1, "an interval was sent twice"
    # Messages are consumed in order: once the runs of the window have ended, so have its pings.
    wait_for_window(cluster, begin, begin + WINDOW - timedelta(seconds=2))
    cluster.wait_until(
        lambda: pings(cluster) >= sent, timeout=30, describe=lambda: f"{sent}, got {pings(cluster)}"
    )
    assert pings(cluster) == sent


def pings(cluster: Cluster) -> int:
    ((count,),) = cluster.query("SELECT count(*) FROM cluster_app_effect WHERE source = 'ping'")
    return int(count)
