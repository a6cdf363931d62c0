"""Queries about a job by name, and start, stop and resume."""

from datetime import UTC, datetime, timedelta

import pytest

import punctual
from punctual.jobs.clock import database_now
from punctual.jobs.errors import DefinitionError
from punctual.jobs.models import Job, JobVersion
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.planning.materialize import plan_due
from punctual.occurrences.states import OccurrenceState
from tests.occurrences.factories import a_job, a_task, an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("JOB-8")]

LONG_AGO = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def job() -> Job:
    row = saved(a_job("nightly", LONG_AGO, schedule="0 2 * * *"))
    saved(a_task(row, "step"))
    return row


@pytest.mark.parametrize(
    ("schedule", "active"),
    [
        ("0 2 * * *", True),
        ("0 2 * * * {until:2026-02-01}", False),
        ("0 2 * * * {until:2090-02-01}", True),
        ("0 2 * * * {from:2090-01-01}", False),
        ("0 2 * * * {from:2026-01-01, until:2090-01-01}", True),
        ("0 0 30 2 *", False),  # no such day
        ("@once 2026-02-01T00:00:00Z", False),
        ("@once 2090-02-01T00:00:00Z", True),
        ("iso8601:R3/2026-01-01T00:00:00Z/PT1H", False),
        ("iso8601:R/2026-01-01T00:00:00Z/PT1H", True),
        ("iso8601:R/2090-01-01T00:00:00Z/PT1H", False),
    ],
)
def test_a_job_is_active_and_enabled_inside_the_start_and_end_of_its_schedule(
    job: Job, schedule: str, *, active: bool
) -> None:
    Job.objects.update(schedule=schedule)
    assert (punctual.is_active("nightly"), punctual.is_enabled("nightly")) == (active, active)


def test_an_interval_of_which_no_instant_is_left_is_active_until_its_end(job: Job) -> None:
    now = database_now()
    end = f"{now + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    Job.objects.update(schedule=f"@every 300d {{until:{end}}}", created_at=now - timedelta(days=1))
    assert punctual.next_runs("nightly") == []
    assert punctual.is_active("nightly")


def test_a_pause_with_an_end_is_over_when_that_has_come(job: Job) -> None:
    assert punctual.pause("nightly", until=database_now() + timedelta(hours=1), backlog="last")
    assert (punctual.is_paused("nightly"), punctual.is_enabled("nightly")) == (True, False)
    Job.objects.update(paused_until=database_now() - timedelta(seconds=1))
    assert (punctual.is_paused("nightly"), punctual.is_enabled("nightly")) == (False, True)


@pytest.mark.parametrize(
    ("until", "problem"),
    [(LONG_AGO, "expected an instant after now"), (LONG_AGO.replace(tzinfo=None), "with a time zone")],
)
def test_a_pause_ends_at_an_instant_after_now(job: Job, until: datetime, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        punctual.pause("nightly", until=until)
    assert not punctual.is_paused("nightly")


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
    assert (punctual.is_enabled("nightly"), punctual.is_paused("nightly")) == (enabled, paused)


@pytest.mark.parametrize(
    ("state", "running"),
    [(OccurrenceState.RUNNING, True), (OccurrenceState.DISPATCHED, True), (OccurrenceState.PENDING, False),
     (OccurrenceState.COMPLETED, False), (OccurrenceState.QUEUED, False)],
)  # fmt: skip
def test_is_running_reads_the_states_of_occurrences(
    job: Job, state: OccurrenceState, *, running: bool
) -> None:
    saved(an_occurrence(job, LONG_AGO, state))
    assert punctual.is_running("nightly") is running


def test_the_next_run_is_the_planned_start_with_stagger(job: Job) -> None:
    assert punctual.next_run("nightly") is None, "nothing has been planned"
    Job.objects.update(schedule="0 2 * * * {stagger:10m}", updated_at=database_now())
    plan_due(database_now())
    (planned,) = Occurrence.objects.all()
    assert punctual.next_run("nightly") == planned.run_at > planned.scheduled_for
    assert punctual.next_runs("nightly", 2) == [
        planned.scheduled_for,
        planned.scheduled_for + timedelta(days=1),
    ]


def test_stop_deletes_planned_occurrences_start_plans_again_and_both_are_versions(job: Job) -> None:
    plan_due(database_now())
    planned = set(Occurrence.objects.filter(scheduled_for__gt=database_now()).values_list("id", flat=True))
    assert planned
    assert punctual.stop("nightly", author="maria")
    assert not punctual.stop("nightly"), "it was disabled"
    assert not Occurrence.objects.filter(id__in=planned).exists()
    assert punctual.start("nightly", author="maria")
    assert not punctual.start("nightly"), "it was enabled"
    assert Occurrence.objects.filter(id__in=planned, state="pending").count() == len(planned)
    versions = JobVersion.objects.order_by("number").values_list("number", "author", "reason")
    assert list(versions) == [
        (1, "sql", "inserted by raw SQL"),
        (2, "maria", "stopped"),
        (3, "maria", "started"),
    ]


def test_an_unknown_choice_for_the_backlog_is_refused_and_the_job_stays_paused(job: Job) -> None:
    punctual.pause("nightly")
    with pytest.raises(DefinitionError, match="backlog='some': expected one of none, last, all, compressed"):
        punctual.resume("nightly", backlog="some")
    assert punctual.is_paused("nightly")


def test_resume_with_a_backlog_creates_linked_occurrences_once(job: Job) -> None:
    Cursor.objects.update(settled_until=database_now(), planned_until=database_now(), plan_at=None)
    punctual.pause("nightly")
    row = an_occurrence(job, LONG_AGO, OccurrenceState.SKIPPED)
    row.reason, row.finished_at, row.finalized_at = "paused", database_now(), database_now()
    saved(row)
    assert punctual.resume("nightly", backlog="last")
    assert not punctual.resume("nightly", backlog="last"), "it was no longer paused"
    (created,) = Occurrence.objects.filter(cause="recovery")
    assert (created.parent_id, created.scheduled_for, created.state) == (row.id, LONG_AGO, "pending")
