"""Actions of a job's page: run now, pause, resume with a backlog, stop and start, each logged."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from punctual.jobs.clock import database_now
from punctual.jobs.declaration.decorators import Job as Declared
from punctual.jobs.declaration.registry import registry
from punctual.jobs.declaration.sync import sync
from punctual.jobs.job_schedule import upcoming
from punctual.jobs.models import Job, JobVersion, Origin
from punctual.occurrences.models import Cause, Occurrence
from punctual.occurrences.states import OccurrenceState
from punctual.operations.models import Audit
from tests.console.definitions.editable_jobs import LIST, change_url
from tests.console.definitions.form_driver import form_values
from tests.console.fixtures import Viewer, page
from tests.console.ledger_rows import make_job, make_occurrence, make_task, work

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]


WHY = {"reason": "a test"}


def path(job: Job, name: str) -> str:
    return f"/admin/job/{job.pk}/{name}/"


def logged() -> list[str]:
    return [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")]


def test_run_now_creates_an_occurrence_links_to_it_and_logs_it(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    response = root.post(path(job, "run"), follow=True)
    occurrence = Occurrence.objects.get(job=job)
    assert occurrence.cause == Cause.MANUAL
    assert f"/admin/punctual/occurrence/{occurrence.pk}/change/" in response.content.decode()
    assert LogEntry.objects.get().get_change_message() == f"Run now: {occurrence.display_id}"


def test_running_needs_its_own_permission(viewer: Viewer, now: datetime) -> None:
    job = make_job("etl", now)
    client = viewer("punctual.view_job", "punctual.change_job", "punctual.pause_job")
    assert path(job, "run") not in page(client, change_url(job))
    assert client.post(path(job, "run")).status_code == 403
    assert not Occurrence.objects.exists()


def test_pausing_needs_its_own_permission(viewer: Viewer, now: datetime) -> None:
    job = make_job("etl", now)
    client = viewer("punctual.view_job", "punctual.change_job", "punctual.trigger_job")
    assert path(job, "pause") not in page(client, change_url(job))
    assert client.post(path(job, "pause")).status_code == 403
    job.refresh_from_db()
    assert not job.paused


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("run", {}),
    ("pause", {}),
    ("resume", {"paused": True}),
    ("stop", {}),
    ("start", {"enabled": False}),
    ("remove", {}),
]


def made(now: datetime, *, paused: bool = False, enabled: bool = True) -> Job:
    job = make_job("etl", now, paused_at=now if paused else None, enabled=enabled, origin=Origin.ADMIN)
    make_task(job)
    return job


@pytest.mark.parametrize(("name", "facts"), ASKED)
def test_every_action_asks_before_it_acts(
    root: Client, now: datetime, name: str, facts: dict[str, Any]
) -> None:
    job = made(now, **facts)
    before = Job.objects.values().get()
    text = page(root, path(job, name))
    assert "Nothing has happened yet" in text
    assert 'name="reason"' in text
    assert Job.objects.values().get() == before
    assert not Occurrence.objects.exists()
    assert logged() == []
    assert not Audit.objects.exists()


@pytest.mark.parametrize(("name", "facts"), ASKED)
def test_every_action_leaves_one_audit_entry_with_author_reason_and_job(
    root: Client, now: datetime, name: str, facts: dict[str, Any]
) -> None:
    job = made(now, **facts)
    assert root.post(path(job, name), {"reason": "the disk is full"}).status_code == 302
    entry = Audit.objects.get()
    assert (entry.action, entry.requested_by, entry.reason) == (name, "admin", "the disk is full")
    assert (entry.count, entry.details, entry.finished) == (1, {"job": "etl"}, True)
    assert logged()[0].endswith(": the disk is full")


@pytest.mark.parametrize("name", ["pause", "stop", "remove"])
def test_what_holds_a_job_needs_a_reason(root: Client, now: datetime, name: str) -> None:
    job = made(now)
    before = Job.objects.values().get()
    assert "Please give a reason" in root.post(path(job, name), {"reason": " "}).content.decode()
    assert Job.objects.values().get() == before
    assert not Audit.objects.exists()


@pytest.mark.req("JOB-8")
def test_a_pause_keeps_its_reason_until_the_job_is_resumed(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    root.post(path(job, "pause"), {"reason": "holidays"})
    job.refresh_from_db()
    assert job.pause_reason == "holidays"
    root.post(path(job, "resume"))
    job.refresh_from_db()
    assert (job.pause_reason, job.paused_at) == ("", None)


@pytest.mark.req("JOB-5")
def test_a_job_made_in_the_admin_is_removed_and_its_history_stays(root: Client) -> None:
    now = database_now()
    job = made(now)
    make_occurrence(job, now - timedelta(hours=1))
    make_occurrence(job, now + timedelta(hours=1), OccurrenceState.PENDING)
    assert "planned occurrences, deleted</dt><dd>1<" in page(root, path(job, "remove"))
    root.post(path(job, "remove"), {"reason": "replaced"})
    job.refresh_from_db()
    assert job.removed
    version = JobVersion.objects.exclude(author="sql").get()  # the fixture inserts a row, as raw SQL does
    assert (version.author, version.reason, version.number) == ("admin", "replaced", job.version)
    assert list(Occurrence.objects.values_list("state", flat=True)) == [OccurrenceState.COMPLETED]
    assert "Remove" not in page(root, change_url(job))
    assert str(job.pk) in page(root, f"/admin/punctual/occurrence/?job__id__exact={job.pk}")
    assert "replaced" in page(root, f"/admin/punctual/jobversion/{version.pk}/change/")


def test_removing_needs_its_own_permission_and_a_job_made_in_the_admin(
    root: Client, viewer: Viewer, now: datetime
) -> None:
    job = made(now)
    client = viewer("punctual.view_job", "punctual.change_job", "punctual.pause_job")
    assert path(job, "remove") not in page(client, change_url(job))
    assert client.post(path(job, "remove"), {"reason": "no"}).status_code == 403
    for origin in (Origin.CODE, Origin.FILE, Origin.POLLING):
        other = make_job(f"of {origin}", now, origin=origin)
        root.post(path(other, "remove"), {"reason": "no"})
        assert not Job.objects.get(pk=other.pk).removed
    assert not Audit.objects.exists()


def test_an_unknown_action_is_not_found(root: Client, now: datetime) -> None:
    assert root.post(path(make_job("etl", now), "explode")).status_code == 404


def test_pause_and_resume_alternate_and_are_logged(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    root.post(path(job, "pause"), WHY)
    job.refresh_from_db()
    assert job.paused
    text = page(root, change_url(job))
    assert path(job, "resume") in text
    assert path(job, "pause") not in text
    again = root.post(path(job, "pause"), WHY, follow=True)
    assert "paused already" in again.content.decode()
    root.post(path(job, "resume"))
    job.refresh_from_db()
    assert not job.paused
    assert logged() == ["Paused: a test", "Resumed, backlog: none"]


def test_a_removed_job_is_not_run(root: Client, now: datetime) -> None:
    job = make_job("etl", now, removed_at=now)
    assert path(job, "run") not in page(root, change_url(job))
    assert "no longer registered" in root.post(path(job, "run"), follow=True).content.decode()
    assert not Occurrence.objects.exists()


@pytest.mark.req("JOB-8")
@pytest.mark.parametrize(("backlog", "created"), [("none", 0), ("last", 1), ("all", 3), ("compressed", 1)])
def test_resume_runs_the_chosen_part_of_the_backlog(root: Client, backlog: str, created: int) -> None:
    now = database_now()
    job = make_job("etl", now, paused_at=now)
    make_task(job)
    skip_instants(job, now, 3)
    text = page(root, path(job, "resume"))
    assert "instants of the pause</dt><dd>3<" in text
    assert "the newest 3 of 3 run in their order" in text
    assert form_values(text, path(job, "resume"))["backlog"] == "none"
    root.post(path(job, "resume"), {"backlog": backlog})
    job.refresh_from_db()
    assert not job.paused
    assert Occurrence.objects.filter(job=job, cause=Cause.RECOVERY).count() == created
    assert logged() == [f"Resumed, backlog: {backlog}"]


@pytest.mark.req("JOB-8")
def test_the_resume_page_counts_instants_that_no_beat_has_recorded(root: Client) -> None:
    now = database_now().replace(second=30)
    job = make_job("etl", now - timedelta(minutes=90), schedule="0 * * * * *", paused_at=now)
    make_task(job)
    Job.objects.update(paused_at=now - timedelta(minutes=60))
    text = page(root, path(job, "resume"))
    expected = len([at for at in upcoming(job, job.created_at, 200) if at <= database_now()])
    assert f"the newest {expected} of {expected} run in their order" in text
    root.post(path(job, "resume"), {"backlog": "all"})
    created = Occurrence.objects.filter(cause=Cause.RECOVERY).count()
    assert expected <= created <= expected + 1, "a minute may have passed since the preview"


@pytest.mark.req("JOB-8")
def test_a_pause_may_have_an_end_and_a_choice_for_its_backlog(root: Client) -> None:
    job = make_job("etl", database_now())
    text = page(root, path(job, "pause"))
    assert form_values(text, path(job, "pause")).keys() >= {"until", "backlog", "reason"}
    past = root.post(path(job, "pause"), {"until": "2020-01-01T12:00", **WHY}, follow=True)
    assert "expected an instant after now" in past.content.decode()
    assert not Job.objects.get().paused
    root.post(path(job, "pause"), {"until": "2090-01-01T12:00", "backlog": "last", **WHY})
    job.refresh_from_db()
    assert (job.paused_until, job.pause_backlog) == (datetime(2090, 1, 1, 12, tzinfo=UTC), "last")
    assert logged() == ["Paused until 2090-01-01 12:00:00+00:00, backlog: last: a test"]
    assert "2090" in page(root, change_url(job))


@pytest.mark.req("JOB-8")
def test_an_unknown_backlog_resumes_nothing(root: Client, now: datetime) -> None:
    job = make_job("etl", now, paused_at=now)
    response = root.post(path(job, "resume"), {"backlog": "some"}, follow=True)
    assert "expected one of none, last, all, compressed" in response.content.decode()
    job.refresh_from_db()
    assert job.paused
    assert logged() == []


def test_the_resume_page_needs_the_permission_and_a_paused_job(
    root: Client, viewer: Viewer, now: datetime
) -> None:
    job = make_job("etl", now)
    assert root.get(path(job, "resume")).status_code == 302
    other = make_job("other", now, paused_at=now)
    client = viewer("punctual.view_job", "punctual.change_job")
    assert client.get(path(other, "resume")).status_code == 403
    assert client.post(path(other, "resume")).status_code == 403
    assert Job.objects.get(pk=other.pk).paused


@pytest.mark.req("JOB-8")
def test_stop_and_start_alternate_and_are_logged(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    root.post(path(job, "stop"), WHY)
    job.refresh_from_db()
    assert not job.enabled
    text = page(root, change_url(job))
    assert path(job, "start") in text
    assert path(job, "stop") not in text
    root.post(path(job, "start"))
    job.refresh_from_db()
    assert job.enabled
    assert logged() == ["Stopped: a test", "Started"]
    assert set(JobVersion.objects.values_list("author", flat=True)) == {"admin", "sql"}
    assert "2 entries" in page(root, f"{LIST}{job.pk}/history/")


@pytest.mark.req("JOB-10")
@pytest.mark.parametrize(("name", "expected"), [("pause", (True, True)), ("stop", (False, False))])
def test_a_paused_or_stopped_job_stays_so_after_the_next_deployment(
    root: Client, now: datetime, name: str, expected: tuple[bool, bool]
) -> None:
    declared = Declared("etl", "0 2 * * *")
    declared.task(name="step")(work)
    sync(now)
    job = Job.objects.get()
    root.post(path(job, name), WHY)
    with registry.isolated():
        changed = Declared("etl", "0 3 * * *")
        changed.task(name="step")(work)
        sync(now)
    job.refresh_from_db()
    assert job.schedule == "0 3 * * *"
    assert (job.enabled, job.paused) == expected


@pytest.mark.parametrize("origin", [Origin.CODE, Origin.FILE, Origin.POLLING])
def test_jobs_defined_elsewhere_can_be_run_and_paused_here(
    root: Client, now: datetime, origin: Origin
) -> None:
    job = make_job("etl", now, origin=origin)
    text = page(root, change_url(job))
    for name in ("run", "pause", "stop"):
        assert path(job, name) in text


def skip_instants(job: Job, now: datetime, count: int) -> None:
    for minute in range(1, count + 1):
        at = now + timedelta(minutes=minute)
        make_occurrence(job, at, OccurrenceState.SKIPPED, reason="paused", started_at=None, fired_at=None)
