"""Actions on jobs ticked in their list: previewed, confirmed with a reason, applied where they fit."""

import re
from datetime import datetime
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from punctual.console.acting.targets import MAX_JOBS
from punctual.jobs.models import Job
from punctual.occurrences.models import Cause, Occurrence
from tests.console.fixtures import Viewer, page, queries
from tests.console.ledger_rows import make_job, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

LIST = "/admin/punctual/job/"


def preview(client: Client, action: str, *jobs: Job) -> Any:
    """Choose an action of the list; returns the page with its preview."""
    selection = {"action": action, "_selected_action": [str(job.pk) for job in jobs]}
    return client.post(LIST, selection, follow=True)


def confirm(client: Client, previewed: Any, reason: str = "for a test") -> Any:
    """Submit the form of a preview, with its hidden fields."""
    path = previewed.request["PATH_INFO"]
    hidden = re.findall(r'name="(jobs)" value="([^"]*)"', previewed.content.decode())
    return client.post(path, {**dict(hidden), "reason": reason}, follow=True)


def paused(*jobs: Job) -> list[bool]:
    return [Job.objects.get(pk=job.pk).paused for job in jobs]


@pytest.mark.parametrize(
    ("action", "count"), [("run_now", "Run <span data-count>2"), ("pause", "Pause <span data-count>2")]
)
def test_a_preview_counts_and_changes_nothing(root: Client, now: datetime, action: str, count: str) -> None:
    one, two, other = (make_job(name, now) for name in ("one", "two", "other"))
    text = preview(root, action, one, two).content.decode()
    assert count in text
    assert "one, two" in text
    assert "Nothing has happened yet" in text
    assert not Occurrence.objects.exists()
    assert paused(one, two, other) == [False, False, False]


def test_ticked_jobs_are_paused_and_resumed_with_the_reason_in_the_log(root: Client, now: datetime) -> None:
    one, two, other = (make_job(name, now) for name in ("one", "two", "other"))
    response = confirm(root, preview(root, "pause", one, two), "the disk is replaced")
    assert "2 jobs paused." in response.content.decode()
    assert paused(one, two, other) == [True, True, False]
    confirm(root, preview(root, "resume", one), "it was")
    assert paused(one, two, other) == [False, True, False]
    messages = LogEntry.objects.order_by("pk").values_list("change_message", flat=True)
    assert list(messages) == [*["Paused: the disk is replaced"] * 2, "Resumed, backlog: none: it was"]


def test_without_a_reason_nothing_is_done(root: Client, now: datetime) -> None:
    job = make_job("one", now)
    text = confirm(root, preview(root, "pause", job), " ").content.decode()
    assert "Please give a reason. Nothing was done." in text
    assert "Pause <span data-count>1" in text
    assert paused(job) == [False]
    assert not LogEntry.objects.exists()


def test_run_now_runs_each_ticked_job_once(root: Client, now: datetime) -> None:
    one, two, other = (make_job(name, now) for name in ("one", "two", "other"))
    for job in (one, two, other):
        make_task(job)
    confirm(root, preview(root, "run_now", one, two))
    triggered = Occurrence.objects.filter(cause=Cause.MANUAL).values_list("job", flat=True)
    assert sorted(triggered) == sorted([one.pk, two.pk])
    assert LogEntry.objects.count() == 2


def test_jobs_the_action_does_not_fit_are_named_and_left_alone(root: Client, now: datetime) -> None:
    running, held = make_job("running", now), make_job("held", now, paused_at=now)
    gone = make_job("gone", now, removed_at=now)
    previewed = preview(root, "pause", running, held, gone)
    text = previewed.content.decode()
    assert "Pause <span data-count>1</span> job?" in text
    assert "left alone: paused already, or no longer registered" in text
    assert "gone, held" in text
    confirm(root, previewed)
    assert paused(running, held, gone) == [True, True, False]


def test_an_action_that_fits_no_ticked_job_has_no_button(root: Client, now: datetime) -> None:
    text = preview(root, "resume", make_job("running", now)).content.decode()
    assert "There is nothing to do" in text
    assert 'name="reason"' not in text


def test_jobs_paused_meanwhile_are_named_in_messages(root: Client, now: datetime) -> None:
    one, two = make_job("one", now), make_job("two", now)
    previewed = preview(root, "pause", one, two)
    Job.objects.update(paused_at=now)
    text = confirm(root, previewed).content.decode()
    assert "0 jobs paused." in text
    assert "“one” was paused already" in text
    assert "“two” was paused already" in text
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(
    ("name", "permission"), [("run", "punctual.pause_job"), ("pause", "punctual.trigger_job")]
)
def test_each_action_needs_its_own_permission(
    viewer: Viewer, now: datetime, name: str, permission: str
) -> None:
    job = make_job("etl", now)
    client = viewer("punctual.view_job", permission)
    path = f"/admin/chosen-jobs/{name}/?jobs={job.pk}"
    assert client.get(path).status_code == 403
    assert client.post(path, {"jobs": str(job.pk)}).status_code == 403
    assert f'value="{ {"run": "run_now"}.get(name, name) }"' not in page(client, LIST)


@pytest.mark.parametrize("query", ["", "?jobs=", "?jobs=17", f"?jobs={','.join(['x'] * (MAX_JOBS + 1))}"])
def test_malformed_ids_are_refused(root: Client, query: str) -> None:
    assert root.get(f"/admin/chosen-jobs/pause/{query}").status_code == 400


@pytest.mark.parametrize("name", ["explode", "backfill", "prune"])
def test_an_action_that_is_unknown_or_takes_one_job_is_not_found(
    root: Client, now: datetime, name: str
) -> None:
    job = make_job("etl", now)
    assert root.get(f"/admin/chosen-jobs/{name}/?jobs={job.pk}").status_code == 404


def test_a_preview_takes_the_same_queries_for_many_jobs(root: Client, now: datetime) -> None:
    def path(count: int) -> str:
        ids = [str(make_job(f"job {number} of {count}", now).pk) for number in range(count)]
        return f"/admin/chosen-jobs/pause/?jobs={','.join(ids)}"

    assert len(queries(root, path(2))) == len(queries(root, path(20)))
