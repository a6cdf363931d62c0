from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from punctual.jobs.models import Job
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.states import OccurrenceState
from punctual.recovery.catchup import CaughtUp, catch_up
from tests.execution.conftest import NOW
from tests.flow.test_outages import dying_after
from tests.occurrences.factories import a_job, an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("REC-1")]

GRACE = timedelta(seconds=60)
MINUTE = timedelta(minutes=1)


def late(job: Job, minutes: int, **columns: Any) -> Occurrence:
    at = NOW - minutes * MINUTE
    return saved(an_occurrence(job, at, **{"late_at": at + GRACE} | columns))


@pytest.fixture
def planned(job: Job) -> Job:
    Cursor.objects.update(plan_at=NOW + MINUTE, planned_until=NOW + MINUTE)
    return job


def dispositions() -> list[tuple[str, str, str]]:
    rows = Occurrence.objects.order_by("scheduled_for")
    return list(rows.values_list("state", "cause", "reason"))


@pytest.mark.req("OCC-5")
@pytest.mark.req("REC-2")
def test_recovered_occurrences_are_marked_and_the_rest_are_recorded_as_missed(planned: Job) -> None:
    for minutes in (3, 2, 1):
        late(planned, minutes)
    assert catch_up(NOW) == CaughtUp(jobs=1, recovered=1, missed=2)
    assert dispositions() == [
        ("missed", "schedule", "downtime"),
        ("missed", "schedule", "downtime"),
        ("pending", "recovery", ""),
    ]
    assert [row.cause for row in Occurrence.objects.catching_up()] == ["recovery"]
    assert Cursor.objects.catch_up_due(NOW).exists(), "the next tick starts it, however late it is"
    assert catch_up(NOW) == CaughtUp(), "a second call changes nothing"


@pytest.mark.django_db(transaction=True)  # a transaction of its own, not one within the test's
@pytest.mark.req("REC-2")
def test_a_beat_that_dies_at_any_statement_leaves_all_rows_as_they_were(planned: Job) -> None:
    for minutes in (3, 2, 1):
        late(planned, minutes)
    before = dispositions()
    for survived in count():
        with dying_after(survived) as died:
            catch_up(NOW)
        if not died:
            break
        assert dispositions() == before, f"after {survived} statements"
    assert survived > 3
    assert [state for state, *_ in dispositions()] == ["missed", "missed", "pending"]


def test_a_row_is_late_once_its_grace_has_passed(planned: Job) -> None:
    late(planned, 1, late_at=NOW + timedelta(microseconds=1))
    assert catch_up(NOW) == CaughtUp()
    assert catch_up(NOW + timedelta(microseconds=1)).recovered == 1


@pytest.mark.parametrize("state", [state for state in OccurrenceState if state != "pending"])
def test_only_pending_rows_are_caught_up(planned: Job, state: OccurrenceState) -> None:
    late(planned, 5, state=state)
    assert catch_up(NOW) == CaughtUp()


def test_manual_runs_are_never_late(planned: Job) -> None:
    late(planned, 500, cause="manual", late_at=None)
    assert catch_up(NOW) == CaughtUp()


def test_a_job_is_caught_up_only_after_its_planning_is_complete(planned: Job) -> None:
    late(planned, 5)
    Cursor.objects.update(plan_at=NOW)
    assert catch_up(NOW) == CaughtUp()
    Cursor.objects.update(plan_at=None)
    assert catch_up(NOW).jobs == 1


def test_each_job_follows_the_strategy_of_its_newest_row(db: None) -> None:
    for name, recovery in (("all", "execute_all"), ("none", "mark_as_missed")):
        job = saved(a_job(name, NOW - timedelta(hours=1)))
        late(job, 3, config={"recovery": "execute_last"})
        late(job, 2, config={"recovery": recovery})
    Cursor.objects.update(plan_at=None)
    assert catch_up(NOW) == CaughtUp(jobs=2, recovered=2, missed=2)


def test_the_limit_counts_jobs_and_includes_all_their_rows(db: None) -> None:
    for number in range(3):
        job = saved(a_job(f"job-{number}", NOW))
        for minutes in (3, 2):
            late(job, minutes)
    Cursor.objects.update(plan_at=None)
    assert catch_up(NOW, limit=2) == CaughtUp(jobs=2, recovered=2, missed=2)
    assert catch_up(NOW, limit=2) == CaughtUp(jobs=1, recovered=1, missed=1)


def test_nothing_late_costs_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(1):
        assert catch_up(NOW) == CaughtUp()
