"""What can be asked of a job and done to its schedule, by name."""

from datetime import UTC, datetime, timedelta

import pytest

import jobs
from jobs.clock import database_now
from jobs.errors import DefinitionError
from jobs.models import Job, JobVersion
from occurrences.materialize import plan_due
from occurrences.models import Occurrence
from occurrences.states import OccurrenceState
from tests.occurrences.ledger import a_job, a_task, an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("JOB-8")]

LONG_AGO = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def job() -> Job:
    row = saved(a_job("nightly", LONG_AGO, schedule="0 2 * * *"))
    saved(a_task(row, "step"))
    return row


def test_a_job_is_active_while_its_schedule_has_an_instant_ahead(job: Job) -> None:
    assert jobs.is_active("nightly")
    Job.objects.update(schedule="0 2 * * * {until:2026-02-01}")
    assert not jobs.is_active("nightly")


@pytest.mark.parametrize(
    ("change", "enabled", "paused"),
    [
        ({}, True, False),
        ({"enabled": False}, False, False),
        ({"paused_at": LONG_AGO}, False, True),
        ({"removed_at": LONG_AGO}, False, False),
    ],
)
def test_enabled_means_switched_on_registered_and_not_paused(
    job: Job, change: dict[str, object], *, enabled: bool, paused: bool
) -> None:
    Job.objects.update(**change)
    assert (jobs.is_enabled("nightly"), jobs.is_paused("nightly")) == (enabled, paused)


@pytest.mark.parametrize(
    ("state", "running"),
    [(OccurrenceState.RUNNING, True), (OccurrenceState.DISPATCHED, True), (OccurrenceState.PENDING, False),
     (OccurrenceState.COMPLETED, False), (OccurrenceState.QUEUED, False)],
)  # fmt: skip
def test_running_is_a_question_to_the_database(job: Job, state: OccurrenceState, *, running: bool) -> None:
    saved(an_occurrence(job, LONG_AGO, state))
    assert jobs.is_running("nightly") is running


def test_the_next_run_is_the_planned_one_stagger_included(job: Job) -> None:
    assert jobs.next_run("nightly") is None, "nothing is planned yet"
    Job.objects.update(schedule="0 2 * * * {stagger:10m}", updated_at=database_now())
    plan_due(database_now())
    (planned,) = Occurrence.objects.all()
    assert jobs.next_run("nightly") == planned.run_at > planned.scheduled_for
    assert jobs.next_runs("nightly", 2) == [
        planned.scheduled_for,
        planned.scheduled_for + timedelta(days=1),
    ]


def test_stopping_and_starting_are_versions_and_take_back_and_plan_ahead(job: Job) -> None:
    plan_due(database_now())
    planned = set(Occurrence.objects.filter(scheduled_for__gt=database_now()).values_list("id", flat=True))
    assert planned
    assert jobs.stop("nightly", author="maria")
    assert not jobs.stop("nightly"), "it was off already"
    assert not Occurrence.objects.filter(id__in=planned).exists()
    assert jobs.start("nightly", author="maria")
    assert not jobs.start("nightly"), "it was on already"
    assert Occurrence.objects.filter(id__in=planned, state="pending").count() == len(planned)
    versions = JobVersion.objects.order_by("number").values_list("number", "author", "reason")
    assert list(versions) == [(2, "maria", "stopped"), (3, "maria", "started")]


def test_an_unknown_choice_for_the_backlog_is_refused_and_the_job_stays_paused(job: Job) -> None:
    jobs.pause("nightly")
    with pytest.raises(DefinitionError, match="backlog='some': expected one of none, last, all, compressed"):
        jobs.resume("nightly", backlog="some")
    assert jobs.is_paused("nightly")


def test_resuming_with_a_backlog_makes_linked_occurrences_once(job: Job) -> None:
    jobs.pause("nightly")
    row = an_occurrence(job, LONG_AGO, OccurrenceState.SKIPPED)
    row.reason, row.finished_at, row.finalized_at = "paused", database_now(), database_now()
    saved(row)
    assert jobs.resume("nightly", backlog="last")
    assert not jobs.resume("nightly", backlog="last"), "it was not paused any more"
    (made,) = Occurrence.objects.filter(cause="recovery")
    assert (made.parent_id, made.scheduled_for, made.state) == (row.id, LONG_AGO, "pending")
