"""What is done to jobs ticked in their list: counted first, with a reason, to those it fits."""

import re
from datetime import datetime
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from console.several import MOST
from jobs.models import Job
from occurrences.models import Cause, Occurrence
from tests.console.pages import Viewer, page, queries
from tests.console.rows import make_job, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

LIST = "/admin/jobs/job/"


def asked(client: Client, action: str, *jobs: Job) -> Any:
    """The page that answers to the action of the list."""
    chosen = {"action": action, "_selected_action": [str(job.pk) for job in jobs]}
    return client.post(LIST, chosen, follow=True)


def confirmed(client: Client, question: Any, reason: str = "for a test") -> Any:
    """The press of its button, with all that its form holds."""
    path = question.request["PATH_INFO"]
    held = re.findall(r'name="(jobs)" value="([^"]*)"', question.content.decode())
    return client.post(path, {**dict(held), "reason": reason}, follow=True)


def paused(*jobs: Job) -> list[bool]:
    return [Job.objects.get(pk=job.pk).paused for job in jobs]


@pytest.mark.parametrize(
    ("action", "count"), [("run_now", "Run <span data-count>2"), ("pause", "Pause <span data-count>2")]
)
def test_the_count_comes_first_and_nothing_happens(
    root: Client, now: datetime, action: str, count: str
) -> None:
    one, two, other = (make_job(name, now) for name in ("one", "two", "other"))
    text = asked(root, action, one, two).content.decode()
    assert count in text
    assert "one, two" in text
    assert "Nothing has happened yet" in text
    assert not Occurrence.objects.exists()
    assert paused(one, two, other) == [False, False, False]


def test_those_chosen_are_paused_and_resumed_with_the_reason_in_the_log(root: Client, now: datetime) -> None:
    one, two, other = (make_job(name, now) for name in ("one", "two", "other"))
    answer = confirmed(root, asked(root, "pause", one, two), "the disk is replaced")
    assert "2 jobs paused." in answer.content.decode()
    assert paused(one, two, other) == [True, True, False]
    confirmed(root, asked(root, "resume", one), "it was")
    assert paused(one, two, other) == [False, True, False]
    messages = LogEntry.objects.order_by("pk").values_list("change_message", flat=True)
    assert list(messages) == [*["Paused: the disk is replaced"] * 2, "Resumed, backlog: none: it was"]


def test_without_a_reason_nothing_is_done(root: Client, now: datetime) -> None:
    job = make_job("one", now)
    text = confirmed(root, asked(root, "pause", job), " ").content.decode()
    assert "expected a few words that say why; nothing was done" in text
    assert "Pause <span data-count>1" in text
    assert paused(job) == [False]
    assert not LogEntry.objects.exists()


def test_each_runs_once(root: Client, now: datetime) -> None:
    one, two, other = (make_job(name, now) for name in ("one", "two", "other"))
    for job in (one, two, other):
        make_task(job)
    confirmed(root, asked(root, "run_now", one, two))
    made = Occurrence.objects.filter(cause=Cause.MANUAL).values_list("job", flat=True)
    assert sorted(made) == sorted([one.pk, two.pk])
    assert LogEntry.objects.count() == 2


def test_those_it_does_not_fit_are_named_and_left_alone(root: Client, now: datetime) -> None:
    running, held = make_job("running", now), make_job("held", now, paused_at=now)
    gone = make_job("gone", now, removed_at=now)
    question = asked(root, "pause", running, held, gone)
    text = question.content.decode()
    assert "Pause <span data-count>1</span> job?" in text
    assert "left alone: paused already, or no longer registered" in text
    assert "gone, held" in text
    confirmed(root, question)
    assert paused(running, held, gone) == [True, True, False]


def test_where_it_fits_none_there_is_no_button(root: Client, now: datetime) -> None:
    text = asked(root, "resume", make_job("running", now)).content.decode()
    assert "There is nothing to do" in text
    assert 'name="reason"' not in text


def test_one_that_went_on_meanwhile_says_so(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    question = asked(root, "pause", job)
    Job.objects.update(paused_at=now)
    text = confirmed(root, question).content.decode()
    assert "0 jobs paused." in text
    assert "was paused already" in text
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(("name", "permission"), [("run", "jobs.pause_job"), ("pause", "jobs.trigger_job")])
def test_each_needs_its_own_permission(viewer: Viewer, now: datetime, name: str, permission: str) -> None:
    job = make_job("etl", now)
    client = viewer("jobs.view_job", permission)
    path = f"/admin/chosen-jobs/{name}/?jobs={job.pk}"
    assert client.get(path).status_code == 403
    assert client.post(path, {"jobs": str(job.pk)}).status_code == 403
    assert f'value="{ {"run": "run_now"}.get(name, name) }"' not in page(client, LIST)


@pytest.mark.parametrize("wrong", ["", "?jobs=", "?jobs=17", f"?jobs={','.join(['x'] * (MOST + 1))}"])
def test_ids_that_cannot_be_read_are_refused(root: Client, wrong: str) -> None:
    assert root.get(f"/admin/chosen-jobs/pause/{wrong}").status_code == 400


def test_what_is_unknown_is_not_found(root: Client) -> None:
    assert root.get("/admin/chosen-jobs/explode/").status_code == 404


def test_the_question_costs_the_same_for_many(root: Client, now: datetime) -> None:
    def path(count: int) -> str:
        ids = [str(make_job(f"job {number} of {count}", now).pk) for number in range(count)]
        return f"/admin/chosen-jobs/pause/?jobs={','.join(ids)}"

    assert len(queries(root, path(2))) == len(queries(root, path(20)))
