from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from punctual.jobs.ids import run_id
from punctual.jobs.models import Job, Task
from punctual.occurrences import outbox
from punctual.occurrences.admission.firing import Fired, fire_due
from punctual.occurrences.admission.waiting import admit_waiting
from punctual.occurrences.models import Occurrence, Pool, TaskRun
from punctual.occurrences.planning.materialize import plan_due
from punctual.occurrences.states import OccurrenceState
from tests.occurrences.factories import a_job, a_task, an_occurrence, mark_planned, saved

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
S = OccurrenceState


def make(name: str = "job", tasks: int = 1, **columns: Any) -> Job:
    job = saved(a_job(name, NOW, **columns))
    for number in range(tasks):
        saved(a_task(job, f"step {number}", position=number))
    return job


def fire(now: datetime, **options: Any) -> Fired:
    """Fire with all jobs planned, so that only due rows need work."""
    plan_all()
    return fire_due(now, **options)


def plan_all() -> None:
    mark_planned(NOW, planned_until=NOW, plan_at=NOW + timedelta(hours=1))


def states(job: str = "job") -> list[str]:
    rows = Occurrence.objects.filter(job__name=job).order_by("scheduled_for")
    return list(rows.values_list("state", flat=True))


def test_a_due_occurrence_gets_its_runs_and_is_dispatched() -> None:
    job = make(tasks=2, config={"queue": "slow"})
    row = saved(an_occurrence(job, NOW))
    fired = fire(NOW)

    row.refresh_from_db()
    assert (row.state, row.fired_at) == (S.DISPATCHED, NOW)
    runs = list(TaskRun.objects.order_by("position"))
    tasks = list(Task.objects.order_by("position"))
    assert [run.id for run in runs] == [run_id(row.id, task.id) for task in tasks]
    assert [run.available_at for run in runs] == [NOW, None], "a sequence starts with its first step"
    assert {run.policy["queue"] for run in runs} == {"slow"}
    assert (fired.released, fired.fired, fired.handled) == ((runs[0].id,), 1, 1)
    assert list(fired.ready) == outbox.read_ready([runs[0].id]), "the facts in memory equal those in the rows"


@pytest.mark.req("EXE-1")
def test_in_parallel_mode_every_run_is_released_at_once() -> None:
    saved(an_occurrence(make(tasks=3, config={"mode": "parallel"}), NOW))
    assert len(fire(NOW).released) == 3


@pytest.mark.req("JOB-2")
def test_a_task_s_own_settings_are_part_of_its_run() -> None:
    job = make(config={"queue": "job"})
    Task.objects.update(config={"queue": "task"})
    saved(an_occurrence(job, NOW))
    fire(NOW)
    assert TaskRun.objects.get().policy["queue"] == "task"


def test_retired_tasks_get_no_run() -> None:
    job = make(tasks=2)
    Task.objects.filter(position=0).update(retired_at=NOW)
    saved(an_occurrence(job, NOW))
    assert len(fire(NOW).released) == 1
    assert [run.task.name for run in TaskRun.objects.all()] == ["step 1"]


def test_nothing_fires_before_its_start_time() -> None:
    job = make()
    saved(an_occurrence(job, NOW, run_at=NOW + SECOND))
    assert fire(NOW) == Fired()
    assert fire(NOW + SECOND).fired == 1


def test_what_is_late_is_left_to_recovery() -> None:
    job = make()
    saved(an_occurrence(job, NOW - 60 * SECOND, late_at=NOW))
    assert fire(NOW) == Fired()
    assert fire(NOW - SECOND).fired == 1, "a microsecond earlier it was not late"


@pytest.mark.parametrize("state", [state for state in S if state is not S.PENDING])
def test_only_pending_rows_fire(state: OccurrenceState) -> None:
    saved(an_occurrence(make(), NOW, state))
    assert fire(NOW) == Fired()
    assert states() == [state]


@pytest.mark.req("OCC-4")
@pytest.mark.parametrize(
    ("overlap", "expected", "counts"),
    [
        ("skip", ["running", "skipped", "skipped"], (0, 0, 2)),
        ("queue", ["running", "queued", "queued"], (0, 2, 0)),
        ("allow", ["running", "dispatched", "dispatched"], (2, 0, 0)),
    ],
)
def test_the_overlap_policy_decides_while_an_occurrence_is_active(
    overlap: str, expected: list[str], counts: tuple[int, int, int]
) -> None:
    job = make(config={"overlap": overlap})
    saved(an_occurrence(job, NOW - SECOND, S.RUNNING))
    for offset in range(2):
        saved(an_occurrence(job, NOW + offset * SECOND, run_at=NOW))
    fired = fire(NOW)
    assert states() == expected
    assert (fired.fired, fired.queued, fired.skipped) == counts


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"paused_at": NOW}, "paused"),
        ({"enabled": False}, "stopped"),
        ({"removed_at": NOW}, "removed"),
    ],
)
def test_an_instant_of_a_paused_stopped_or_removed_job_is_skipped_with_the_reason(
    change: dict[str, Any], reason: str
) -> None:
    saved(an_occurrence(make(**change), NOW))
    assert fire(NOW).skipped == 1
    row = Occurrence.objects.get()
    assert (row.state, row.reason, row.finished_at, row.finalized_at) == ("skipped", reason, NOW, NOW)
    assert not TaskRun.objects.exists()


def test_a_job_without_tasks_is_skipped_and_says_so() -> None:
    saved(an_occurrence(make(tasks=0), NOW))
    fire(NOW)
    assert Occurrence.objects.get().reason == "no tasks"


@pytest.mark.parametrize("config", [{"retry": "often"}, {"colour": "red"}, []])
def test_one_job_whose_configuration_was_broken_does_not_stop_the_others(config: Any) -> None:
    broken, healthy = make("broken"), make("healthy")
    for job in (broken, healthy):
        saved(an_occurrence(job, NOW))
    Task.objects.filter(job=broken).update(config=config)
    fire(NOW)
    assert states("healthy") == ["dispatched"]
    assert states("broken") == ["skipped"]
    assert Occurrence.objects.get(job=broken).reason == "unusable configuration"


def test_the_longest_due_fire_first_within_a_batch() -> None:
    job = make(config={"overlap": "allow"})
    for offset in (3, 1, 2):
        saved(an_occurrence(job, NOW - offset * SECOND))
    assert fire(NOW, limit=2).fired == 2
    assert states() == ["dispatched", "dispatched", "pending"]


def test_firing_again_creates_nothing_twice() -> None:
    job = make()
    row = saved(an_occurrence(job, NOW))
    fire(NOW)
    Occurrence.objects.filter(id=row.id).update(
        state=S.PENDING, fired_at=None, holds_slot=False
    )  # as if rolled back
    fire(NOW)
    assert TaskRun.objects.count() == 1


@pytest.mark.req("OCC-4")
def test_the_oldest_waiting_occurrence_of_each_free_job_is_admitted() -> None:
    free, busy = make("free", config={"overlap": "queue"}), make("busy", config={"overlap": "queue"})
    for offset in (2, 1):
        saved(an_occurrence(free, NOW - offset * SECOND, S.QUEUED))
    saved(an_occurrence(busy, NOW - SECOND, S.RUNNING))
    saved(an_occurrence(busy, NOW, S.QUEUED))
    plan_all()
    released = admit_waiting(jobs=[free.id, busy.id], now=NOW)
    assert len(released) == 1
    assert states("free") == ["dispatched", "queued"]
    assert states("busy") == ["running", "queued"]


def test_a_waiting_occurrence_without_tasks_is_skipped_and_the_next_is_not_blocked() -> None:
    job = make(config={"overlap": "queue"}, tasks=0)
    saved(an_occurrence(job, NOW, S.QUEUED))
    plan_all()
    assert admit_waiting(jobs=[job.id], now=NOW) == ()
    assert states() == ["skipped"]


def test_admitting_an_empty_queue_is_one_read() -> None:
    job = make()
    with CaptureQueriesContext(connection) as queries:
        assert admit_waiting(jobs=[job.id], now=NOW) == ()
    assert len(queries) == 1


def test_the_number_of_statements_does_not_depend_on_what_is_due() -> None:
    costs = []
    Pool.objects.update_or_create(name="default", defaults={"size": 1000})
    for size in (1, 10):  # SQLite splits longer lists of values
        for number in range(size):
            saved(an_occurrence(make(f"job-{size}-{number}", tasks=2), NOW))
        plan_all()
        with CaptureQueriesContext(connection) as queries:
            assert fire_due(NOW).fired == size
        costs.append(len(queries))
    assert costs[0] == costs[1]


@pytest.mark.req("OCC-8")
def test_rows_of_an_edited_job_wait_until_it_is_planned_anew() -> None:
    saved(an_occurrence(make(created_at=NOW - SECOND), NOW))
    plan_all()
    Job.objects.update(schedule="30 * * * *", updated_at=NOW - SECOND)
    assert fire_due(NOW) == Fired(contended=1)
    plan_due(NOW)
    assert fire_due(NOW) == Fired()
    assert states() == ["pending"], "the one at half past"
