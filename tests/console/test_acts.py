"""What can be done with an occurrence is offered where it makes sense, asked first, and logged."""

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from jobs.clock import database_now
from occurrences.models import Cause, Occurrence
from occurrences.states import OccurrenceState, RunState
from tests.console.pages import Viewer, page
from tests.console.rows import make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

S = OccurrenceState


def an_occurrence(state: OccurrenceState) -> Occurrence:
    now = database_now()
    job = make_job("etl", now)
    one = make_occurrence(job, now, state)
    if one.fired_at:
        make_run(one, make_task(job), RunState.DLQ if one.finished_at else RunState.SCHEDULED)
    return one


def path(one: Occurrence, name: str) -> str:
    return f"/admin/occurrence/{one.pk}/{name}/"


@pytest.mark.parametrize(
    ("state", "names"),
    [
        (S.PENDING, {"skip"}),
        (S.RUNNING, {"cancel"}),
        (S.FAILED, {"replay", "replay-failed"}),
        (S.COMPLETED, {"replay", "replay-failed"}),
    ],
)
def test_only_what_makes_sense_is_offered(root: Client, state: OccurrenceState, names: set[str]) -> None:
    one = an_occurrence(state)
    text = page(root, f"/admin/occurrences/occurrence/{one.pk}/change/")
    assert {
        name for name in ("skip", "cancel", "replay", "replay-failed") if path(one, name) in text
    } == names


def test_looking_changes_nothing(root: Client) -> None:
    one = an_occurrence(S.RUNNING)
    assert "Nothing has happened yet" in page(root, path(one, "cancel"))
    assert Occurrence.objects.get().state == S.RUNNING


def test_a_running_one_is_canceled_with_its_reason_in_the_log(root: Client) -> None:
    one = an_occurrence(S.RUNNING)
    root.post(path(one, "cancel"), {"reason": "wrong data"})
    assert Occurrence.objects.get().state == S.CANCELED
    assert LogEntry.objects.get().change_message == "wrong data"


def test_a_replay_leads_to_what_it_made(root: Client) -> None:
    one = an_occurrence(S.FAILED)
    answer = root.post(path(one, "replay-failed"), {"reason": "again"})
    made = Occurrence.objects.get(cause=Cause.REPLAY)
    assert answer["Location"] == f"/admin/occurrences/occurrence/{made.pk}/change/"
    assert (made.parent_id, made.request_reason) == (one.pk, "again")


def test_one_that_has_gone_on_is_left_alone(root: Client) -> None:
    one = an_occurrence(S.COMPLETED)
    answer = root.post(path(one, "cancel"), {"reason": "too slow"}, follow=True)
    assert "it had gone on meanwhile" in answer.content.decode()
    assert Occurrence.objects.get().state == S.COMPLETED


@pytest.mark.req("REC-4")
@pytest.mark.parametrize("name", ["cancel", "skip", "replay", "replay-failed"])
def test_each_needs_its_own_permission(viewer: Viewer, name: str) -> None:
    one = an_occurrence(S.RUNNING)
    client = viewer("occurrences.view_occurrence", "jobs.view_job")
    assert client.post(path(one, name)).status_code == 403
    assert path(one, name) not in page(client, f"/admin/occurrences/occurrence/{one.pk}/change/")


def test_what_is_unknown_is_not_found(root: Client) -> None:
    assert root.get(path(an_occurrence(S.FAILED), "explode")).status_code == 404
