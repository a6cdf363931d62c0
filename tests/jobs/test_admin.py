"""What operators may do to a job, what they may not, and what Django's log says about it."""

from datetime import datetime
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from jobs.models import Job, Origin
from occurrences.models import Cause, Occurrence
from tests.console.pages import Viewer, page, pages, root, viewer
from tests.console.rows import make_job, make_task

__all__ = ["pages", "root", "viewer"]  # fixtures
pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

LIST = "/admin/jobs/job/"


def change_url(job: Job) -> str:
    return f"{LIST}{job.pk}/change/"


def press_url(job: Job, button: str) -> str:
    return f"{LIST}{job.pk}/press/{button}/"


def act(client: Client, action: str, *jobs: Job) -> Any:
    data = {"action": action, "_selected_action": [str(job.pk) for job in jobs]}
    return client.post(LIST, data, follow=True)


def test_run_now_on_the_page_makes_an_occurrence_links_to_it_and_logs_it(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    response = root.post(press_url(job, "run"), follow=True)
    occurrence = Occurrence.objects.get(job=job)
    assert occurrence.cause == Cause.MANUAL
    assert f"/admin/occurrences/occurrence/{occurrence.pk}/change/" in response.content.decode()
    assert LogEntry.objects.get().get_change_message() == f"Run now: {occurrence.shown_id}"


def test_run_now_on_the_list_runs_each_chosen_job(root: Client, now: datetime) -> None:
    one, two, other = (make_job(name, now) for name in ("one", "two", "other"))
    act(root, "run_now", one, two)
    assert set(Occurrence.objects.values_list("job", flat=True)) == {one.pk, two.pk}
    assert LogEntry.objects.count() == 2
    assert not other.occurrences.exists()


def test_running_needs_its_own_permission(viewer: Viewer, now: datetime) -> None:
    job = make_job("etl", now)
    client = viewer("jobs.view_job", "jobs.change_job", "jobs.pause_job")
    assert press_url(job, "run") not in page(client, change_url(job))
    assert client.post(press_url(job, "run")).status_code == 403
    act(client, "run_now", job)
    assert not Occurrence.objects.exists()


def test_pausing_needs_its_own_permission(viewer: Viewer, now: datetime) -> None:
    job = make_job("etl", now)
    client = viewer("jobs.view_job", "jobs.change_job", "jobs.trigger_job")
    assert press_url(job, "pause") not in page(client, change_url(job))
    assert client.post(press_url(job, "pause")).status_code == 403
    act(client, "pause", job)
    job.refresh_from_db()
    assert not job.paused


def test_a_button_is_pressed_not_followed(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    assert root.get(press_url(job, "run")).status_code == 405
    assert root.post(press_url(job, "explode")).status_code == 404
    assert not Occurrence.objects.exists()


def test_pause_and_resume_take_turns_and_are_logged(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    act(root, "pause", job)
    job.refresh_from_db()
    assert job.paused
    assert press_url(job, "resume") in page(root, change_url(job))
    assert "was paused already" in act(root, "pause", job).content.decode()
    root.post(press_url(job, "resume"))
    job.refresh_from_db()
    assert not job.paused
    log = [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")]
    assert log == ["Paused", "Resumed"]


def test_a_removed_job_is_not_run(root: Client, now: datetime) -> None:
    job = make_job("etl", now, removed_at=now)
    assert press_url(job, "run") not in page(root, change_url(job))
    assert "no longer registered" in act(root, "run_now", job).content.decode()
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


def test_a_job_made_in_the_admin_is_edited_there_and_gets_a_new_version(root: Client, now: datetime) -> None:
    job = make_job("etl", now, origin=Origin.ADMIN, paused_at=now)
    data = {"schedule": "0 3 * * *", "config": '{"timezone": "Europe/Berlin"}', "metadata": "{}"}
    root.post(change_url(job), data | {"enabled": "on"})
    job.refresh_from_db()
    assert (job.schedule, job.config) == ("0 3 * * *", {"timezone": "Europe/Berlin"})
    assert job.version == 2
    assert job.paused


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("schedule", "61 * * * *", "61"),
        ("config", '{"mode": "sideways"}', "sequential, parallel"),
        ("config", '{"colour": "red"}', "unknown setting"),
        ("config", "[1]", "expected an object"),
    ],
)
def test_a_wrong_definition_is_refused_with_its_reason(
    root: Client, now: datetime, field: str, value: str, expected: str
) -> None:
    job = make_job("etl", now, origin=Origin.ADMIN)
    data = {"schedule": "0 3 * * *", "config": "{}", "metadata": "{}", "enabled": "on"}
    response = root.post(change_url(job), data | {field: value})
    assert response.status_code == 200
    assert expected in response.content.decode()
    job.refresh_from_db()
    assert job.version == 1


def test_jobs_are_neither_added_nor_deleted_here(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    assert root.get(f"{LIST}add/").status_code == 403
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
