"""What operators may do to a job, what they may not, and what Django's log says about it."""

import html
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client, override_settings

from jobs.declare import Job as Declared
from jobs.models import Job, JobVersion, Origin
from jobs.registry import registry
from jobs.sync import sync
from occurrences.models import Cause, Occurrence
from occurrences.states import OccurrenceState
from tests.console.pages import Viewer, page, pages, queries, root, viewer
from tests.console.rows import make_job, make_occurrence, make_task, work
from tests.jobs.filled import filled
from tests.jobs.made import LIST, change_url, press_url

__all__ = ["pages", "root", "viewer"]  # fixtures
pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]


def resume_url(job: Job) -> str:
    return f"{LIST}{job.pk}/resume/"


def logged() -> list[str]:
    return [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")]


def test_run_now_on_the_page_makes_an_occurrence_links_to_it_and_logs_it(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    response = root.post(press_url(job, "run"), follow=True)
    occurrence = Occurrence.objects.get(job=job)
    assert occurrence.cause == Cause.MANUAL
    assert f"/admin/occurrences/occurrence/{occurrence.pk}/change/" in response.content.decode()
    assert LogEntry.objects.get().get_change_message() == f"Run now: {occurrence.shown_id}"


def test_running_needs_its_own_permission(viewer: Viewer, now: datetime) -> None:
    job = make_job("etl", now)
    client = viewer("jobs.view_job", "jobs.change_job", "jobs.pause_job")
    assert press_url(job, "run") not in page(client, change_url(job))
    assert client.post(press_url(job, "run")).status_code == 403
    assert not Occurrence.objects.exists()


def test_pausing_needs_its_own_permission(viewer: Viewer, now: datetime) -> None:
    job = make_job("etl", now)
    client = viewer("jobs.view_job", "jobs.change_job", "jobs.trigger_job")
    assert press_url(job, "pause") not in page(client, change_url(job))
    assert client.post(press_url(job, "pause")).status_code == 403
    job.refresh_from_db()
    assert not job.paused


def test_a_button_is_pressed_not_followed(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    assert root.get(press_url(job, "run")).status_code == 405
    assert root.post(press_url(job, "explode")).status_code == 404
    assert not Occurrence.objects.exists()


def test_pause_and_resume_take_turns_and_are_logged(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    root.post(press_url(job, "pause"))
    job.refresh_from_db()
    assert job.paused
    assert resume_url(job) in page(root, change_url(job))
    again = root.post(press_url(job, "pause"), follow=True)
    assert "was paused already" in again.content.decode()
    root.post(press_url(job, "resume"))
    job.refresh_from_db()
    assert not job.paused
    assert logged() == ["Paused", "Resumed, backlog: none"]


def test_a_removed_job_is_not_run(root: Client, now: datetime) -> None:
    job = make_job("etl", now, removed_at=now)
    assert press_url(job, "run") not in page(root, change_url(job))
    assert "no longer registered" in root.post(press_url(job, "run"), follow=True).content.decode()
    assert not Occurrence.objects.exists()


@pytest.mark.parametrize("origin", [Origin.CODE, Origin.FILE, Origin.POLLING])
def test_a_definition_owned_elsewhere_is_read_only_and_says_why(
    root: Client, now: datetime, origin: Origin
) -> None:
    job = make_job("etl", now, origin=origin)
    text = page(root, change_url(job))
    assert "read-only here" in text
    assert 'name="schedule"' not in text
    assert root.post(change_url(job), {"schedule": "@hourly"}).status_code == 403


@pytest.mark.req("JOB-8")
@pytest.mark.parametrize(("backlog", "made"), [("none", 0), ("last", 1), ("all", 3), ("compressed", 1)])
def test_resume_asks_what_to_do_with_the_backlog_and_does_it(
    root: Client, now: datetime, backlog: str, made: int
) -> None:
    job = make_job("etl", now, paused_at=now)
    make_task(job)
    skipped_instants(job, now, 3)
    text = page(root, resume_url(job))
    assert "data-skipped>3<" in text
    assert filled(text, press_url(job, "resume"))["backlog"] == "none"
    root.post(press_url(job, "resume"), {"backlog": backlog})
    job.refresh_from_db()
    assert not job.paused
    assert Occurrence.objects.filter(job=job, cause=Cause.RECOVERY).count() == made
    assert logged() == [f"Resumed, backlog: {backlog}"]


@pytest.mark.req("JOB-8")
def test_a_backlog_nobody_knows_resumes_nothing(root: Client, now: datetime) -> None:
    job = make_job("etl", now, paused_at=now)
    response = root.post(press_url(job, "resume"), {"backlog": "some"}, follow=True)
    assert "expected one of none, last, all, compressed" in response.content.decode()
    job.refresh_from_db()
    assert job.paused
    assert logged() == []


def test_the_question_about_the_backlog_needs_the_permission_and_a_paused_job(
    root: Client, viewer: Viewer, now: datetime
) -> None:
    job = make_job("etl", now)
    assert root.get(resume_url(job)).status_code == 302
    job = make_job("other", now, paused_at=now)
    assert viewer("jobs.view_job", "jobs.change_job").get(resume_url(job)).status_code == 403
    assert root.post(resume_url(job)).status_code == 405


@pytest.mark.req("JOB-8")
def test_stop_and_start_take_turns_and_are_logged(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    root.post(press_url(job, "stop"))
    job.refresh_from_db()
    assert not job.enabled
    text = page(root, change_url(job))
    assert press_url(job, "start") in text
    assert press_url(job, "stop") not in text
    root.post(press_url(job, "start"))
    job.refresh_from_db()
    assert job.enabled
    assert logged() == ["Stopped", "Started"]
    assert set(JobVersion.objects.values_list("author", flat=True)) == {"admin"}
    assert "2 entries" in page(root, f"{LIST}{job.pk}/history/")


@pytest.mark.req("JOB-10")
@pytest.mark.parametrize(("button", "kept"), [("pause", (True, True)), ("stop", (False, False))])
def test_what_an_operator_holds_stays_held_over_the_next_deploy(
    root: Client, now: datetime, button: str, kept: tuple[bool, bool]
) -> None:
    declared = Declared("etl", "0 2 * * *")
    declared.task(name="step")(work)
    sync(now)
    job = Job.objects.get()
    root.post(press_url(job, button))
    with registry.isolated():
        changed = Declared("etl", "0 3 * * *")
        changed.task(name="step")(work)
        sync(now)
    job.refresh_from_db()
    assert job.schedule == "0 3 * * *"
    assert (job.enabled, job.paused) == kept


@pytest.mark.parametrize("origin", [Origin.CODE, Origin.FILE, Origin.POLLING])
def test_what_is_defined_elsewhere_can_still_be_run_and_held_here(
    root: Client, now: datetime, origin: Origin
) -> None:
    job = make_job("etl", now, origin=origin)
    text = page(root, change_url(job))
    for button in ("run", "pause", "stop"):
        assert press_url(job, button) in text


def test_jobs_are_not_deleted_here(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    assert root.post(f"{LIST}{job.pk}/delete/", {"post": "yes"}).status_code == 403


def test_each_state_can_be_filtered_and_matches_its_badge(root: Client, now: datetime) -> None:
    make_task(make_job("is active", now))
    make_task(make_job("is paused", now, paused_at=now))
    make_task(make_job("is disabled", now, enabled=False))
    make_task(make_job("is removed", now, removed_at=now), registered=False)
    make_task(make_job("is unresolved", now, paused_at=now), registered=False)
    for state in ("active", "paused", "disabled", "removed", "unresolved"):
        text = page(root, f"{LIST}?state={state}")
        names = {name for name in Job.objects.values_list("name", flat=True) if name in text}
        assert names == {f"is {state}"}
        assert f"</svg>{state}</span>" in text


@pytest.mark.parametrize("term", ["ETL", "{shown_id}", "{id}"])
def test_a_job_is_found_by_name_or_id(root: Client, now: datetime, term: str) -> None:
    job = make_job("nightly etl", now)
    make_job("other", now)
    text = page(root, f"{LIST}?q={term.format(shown_id=job.shown_id, id=job.pk)}")
    assert "nightly etl" in text
    assert "other" not in text


def test_a_task_nobody_registers_is_marked_on_its_job_page(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    make_task(job, "known")
    task = make_task(job, "lost", registered=False)
    for path in (change_url(job), f"/admin/jobs/task/{task.pk}/change/"):
        assert "No code registers it." in page(root, path)


@pytest.mark.req("OPS-2")
def test_the_page_of_a_task_shows_its_function_in_full(root: Client, now: datetime) -> None:
    task = make_task(make_job("etl", now), "x" * 150)
    assert f">{task.function}</span>" in page(root, f"/admin/jobs/task/{task.pk}/change/")
    assert f">{task.function}</span>" not in page(root, "/admin/jobs/task/")


@pytest.mark.req("JOB-2")
def test_each_effective_setting_names_the_layer_it_comes_from(root: Client, now: datetime) -> None:
    job = make_job("etl", now, config={"overlap": "queue", "task_timeout": "7m"})
    make_task(job, "extract")
    make_task(job, "load", config={"task_timeout": "11m"})
    with override_settings(PUNCTUAL={"misfire_grace": "13m"}):
        rows = configuration(page(root, change_url(job)))
    assert ("mode", "sequential", "default", "the job") in rows
    assert ("misfire_grace", "13m", "platform", "the job") in rows
    assert ("overlap", "queue", "job", "the job") in rows
    assert ("task_timeout", "7m", "job", "the job") in rows
    assert [row for row in rows if row[3] != "the job"] == [("task_timeout", "11m", "task", "load")]


def test_the_page_says_the_schedule_in_words_and_its_next_fires(root: Client, now: datetime) -> None:
    job = make_job("etl", now, schedule="TZ=Asia/Tokyo 0 2 * * *")
    text = page(root, change_url(job))
    assert "at 02:00 every day, Asia/Tokyo time" in text
    assert text.count("02:00:00 Asia/Tokyo") == 5


@pytest.mark.parametrize("spoiled", [{"schedule": "tomorrow"}, {"config": {"mode": "sideways"}}])
def test_a_row_that_raw_sql_spoiled_still_has_a_page(root: Client, now: datetime, spoiled: Any) -> None:
    job = make_job("etl", now, **spoiled)
    page(root, change_url(job))


def test_the_page_costs_the_same_queries_for_few_tasks_and_versions_and_many(
    root: Client, now: datetime
) -> None:
    job = make_job("etl", now)
    make_task(job)
    few = queries(root, change_url(job))
    for number in range(20):
        make_task(job, f"step {number}", config={"queue": f"q{number}"})
        JobVersion.objects.create(job=job, number=number + 1, author="a", after={}, created_at=now)
    assert len(queries(root, change_url(job))) == len(few)


def skipped_instants(job: Job, now: datetime, count: int) -> None:
    for minute in range(1, count + 1):
        at = now + timedelta(minutes=minute)
        make_occurrence(job, at, OccurrenceState.SKIPPED, reason="paused", started_at=None, fired_at=None)


def configuration(text: str) -> set[tuple[str, ...]]:
    """The rows of what is set, and of the defaults folded below it, without their markup."""
    section = text[text.index("Effective configuration") :]
    section = section[: section.index("</details>")]
    found = re.findall(r"<tr.*?</tr>", section, re.DOTALL)
    cells = [re.findall(r"<td.*?</td>", row, re.DOTALL) for row in found]
    return {tuple(html.unescape(re.sub(r"<.*?>", "", cell)).strip() for cell in row) for row in cells if row}
