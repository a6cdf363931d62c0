from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from punctual import schedules
from punctual.jobs.models import Job
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.planning.materialize import Planned, plan_due
from punctual.occurrences.planning.new_rows import create_missing
from punctual.occurrences.states import OccurrenceState
from punctual.schedules import kinds
from tests.occurrences.factories import a_job, an_occurrence, saved

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 5, 12, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EDITED = NOW + timedelta(milliseconds=1)


def make(name: str = "job", schedule: str = "* * * * *", at: datetime = NOW, **columns: Any) -> Job:
    return saved(a_job(name, at, schedule=schedule, **columns))


def instants(job: str = "job") -> list[datetime]:
    rows = Occurrence.objects.filter(job__name=job).order_by("scheduled_for")
    return list(rows.values_list("scheduled_for", flat=True))


def cursor(job: str = "job") -> Cursor:
    return Cursor.objects.get(job__name=job)


def at(minute: int, hour: int = 12) -> datetime:
    return datetime(2026, 1, 5, hour, minute, tzinfo=UTC)


@pytest.mark.req("OCC-2")
def test_a_new_job_is_planned_from_its_creation_on() -> None:
    make()
    assert plan_due(NOW) == Planned(jobs=1, instants=1)
    assert instants() == [at(1)]
    assert (cursor().planned_until, cursor().plan_at, cursor().settled_until) == (at(1), at(1), NOW)
    assert plan_due(NOW) == Planned(), "nothing more is due"


@pytest.mark.req("REC-1")
def test_nothing_is_owed_for_the_time_before_a_job_existed() -> None:
    make(at=NOW)
    plan_due(NOW + 3 * MINUTE)
    assert instants() == [at(1), at(2), at(3), at(4)]


@pytest.mark.req("OCC-5")
def test_a_row_carries_the_configuration_it_will_run_with() -> None:
    config = {"misfire_grace": "5m", "overlap": "allow", "execution_timeout": "2h"}
    make(schedule="* * * * * {stagger:30s}", config=config, version=4)
    plan_due(NOW)
    (row,) = Occurrence.objects.all()
    assert (row.state, row.cause, row.job_version, row.exclusive) == ("pending", "schedule", 4, False)
    assert row.scheduled_for <= row.run_at < row.scheduled_for + timedelta(seconds=30)
    assert row.late_at == row.run_at + timedelta(minutes=5)
    assert (row.execution_timeout, row.created_at) == (timedelta(hours=2), NOW)
    assert row.config["recovery"] == "execute_last", "inherited values are part of the snapshot"


@pytest.mark.req("OCC-2")
def test_losing_the_race_to_create_is_not_an_error() -> None:
    job = make()
    mine = an_occurrence(job, at(1))
    saved(an_occurrence(job, at(1), OccurrenceState.COMPLETED))
    create_missing([mine, an_occurrence(job, at(2))])
    assert list(Occurrence.objects.order_by("scheduled_for").values_list("state", flat=True)) == [
        "completed",
        "pending",
    ]


@pytest.mark.req("OCC-2")
def test_what_was_settled_and_pruned_is_never_created_again() -> None:
    make()
    plan_due(NOW)
    plan_due(NOW + 3 * MINUTE)
    Occurrence.objects.all().delete()
    Job.objects.update(schedule="*/2 * * * *", updated_at=EDITED)
    plan_due(NOW + 3 * MINUTE)
    assert instants() == [at(4)]
    assert cursor().settled_until == NOW + 3 * MINUTE


@pytest.mark.req("OCC-8")
def test_an_edit_deletes_pending_rows_after_it_and_nothing_else() -> None:
    job = make(schedule="*/10 * * * * *")
    plan_due(NOW)
    edited = NOW + timedelta(seconds=25)
    manual = saved(an_occurrence(job, at(9), cause="manual"))
    done = saved(an_occurrence(job, at(10), OccurrenceState.SKIPPED))
    Job.objects.update(schedule="0 13 * * *", updated_at=edited)
    plan_due(edited)
    before = [NOW + timedelta(seconds=offset) for offset in (10, 20)]
    assert instants() == [*before, manual.scheduled_for, done.scheduled_for, at(0, 13)]


@pytest.mark.parametrize("change", [{"enabled": False}, {"removed_at": NOW}])
def test_a_disabled_or_removed_job_loses_its_pending_rows(change: dict[str, Any]) -> None:
    make()
    plan_due(NOW)
    Job.objects.update(**change, updated_at=EDITED)
    assert plan_due(NOW) == Planned(jobs=1, instants=0)
    assert (instants(), cursor().plan_at) == ([], None)
    assert plan_due(NOW + timedelta(days=1)) == Planned()


@pytest.mark.parametrize(
    "change",
    [
        {"schedule": "nonsense"},
        {"schedule": ""},
        {"schedule": "klingon:1 2 3"},
        {"config": {"colour": "red"}},
        {"config": {"timezone": "Mars/Olympus"}},
        {"config": []},
        {"config": "text"},
        {"schedule": "@once 9999-12-31T23:59:59Z"},
    ],
)
def test_one_job_that_cannot_be_planned_does_not_stop_the_others(change: dict[str, Any]) -> None:
    make("broken")
    make("healthy")
    Job.objects.filter(name="broken").update(**change, updated_at=EDITED)
    plan_due(NOW)
    assert instants("healthy") == [at(1)]
    assert cursor("broken").problem or instants("broken") == [datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)]
    assert plan_due(NOW) == Planned(), "not tried again before the next edit"


class Exploding:
    """A custom schedule with a bug."""

    def next_after(self, _instant: datetime, /) -> datetime | None:
        raise ZeroDivisionError("in user code")

    def between(self, _start: datetime, _end: datetime, /) -> Iterator[datetime]:
        return iter(())


@pytest.fixture
def exploding_kind() -> Iterator[None]:
    schedules.register("exploding", lambda *_, **__: Exploding())
    yield
    del kinds._KINDS["exploding"]


@pytest.mark.req("ISO-3")
def test_a_custom_schedule_that_raises_does_not_stop_the_others(exploding_kind: None) -> None:
    make("broken", schedule="exploding:now")
    make("healthy")
    plan_due(NOW)
    assert instants("healthy") == [at(1)]
    assert "in user code" in cursor("broken").problem
    assert cursor("broken").plan_at is None


def test_a_repaired_job_is_planned_again_and_its_problem_forgotten() -> None:
    make(schedule="nonsense")
    plan_due(NOW)
    assert "E010" in cursor().problem
    Job.objects.update(schedule="* * * * *", updated_at=EDITED)
    plan_due(NOW)
    assert (cursor().problem, instants()) == ("", [at(1)])


def test_a_batch_takes_the_longest_waiting_first_and_as_many_as_it_may() -> None:
    for number in range(3):
        make(f"job-{number}")
    Cursor.objects.filter(job__name="job-2").update(plan_at=datetime(1969, 1, 1, tzinfo=UTC))
    assert plan_due(NOW, limit=1).jobs == 1
    assert (instants("job-2"), Occurrence.objects.count()) == ([at(1)], 1)
    assert plan_due(NOW).jobs == 2


def test_the_number_of_statements_does_not_depend_on_the_number_of_jobs() -> None:
    costs = []
    for size in (1, 20):  # SQLite splits longer lists of values
        for number in range(size):
            make(f"job-{size}-{number}")
        with CaptureQueriesContext(connection) as queries:
            assert plan_due(NOW).jobs == size
        costs.append(len(queries))
    assert costs[0] == costs[1]


def test_a_tick_with_nothing_to_plan_only_reads() -> None:
    with CaptureQueriesContext(connection) as queries:
        plan_due(NOW)
    assert len(queries) == 1
