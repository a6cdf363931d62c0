"""Actions of an occurrence's page: offered by state, previewed, confirmed with a reason, logged."""

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from punctual.jobs.clock import database_now
from punctual.occurrences.models import Cause, Occurrence
from punctual.occurrences.states import OccurrenceState, RunState
from tests.console.fixtures import Viewer, page
from tests.console.ledger_rows import make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

S = OccurrenceState


def an_occurrence(state: OccurrenceState) -> Occurrence:
    now = database_now()
    job = make_job("etl", now)
    occurrence = make_occurrence(job, now, state)
    if occurrence.fired_at:
        make_run(occurrence, make_task(job), RunState.DLQ if occurrence.finished_at else RunState.SCHEDULED)
    return occurrence


def path(occurrence: Occurrence, name: str) -> str:
    return f"/admin/occurrence/{occurrence.pk}/{name}/"


def change_page(occurrence: Occurrence) -> str:
    return f"/admin/punctual/occurrence/{occurrence.pk}/change/"


@pytest.mark.parametrize(
    ("state", "names"),
    [
        (S.PENDING, {"skip"}),
        (S.RUNNING, {"cancel"}),
        (S.FAILED, {"replay", "replay-failed"}),
        (S.COMPLETED, {"replay", "replay-failed"}),
    ],
)
def test_a_page_offers_the_actions_of_its_state(
    root: Client, state: OccurrenceState, names: set[str]
) -> None:
    occurrence = an_occurrence(state)
    text = page(root, change_page(occurrence))
    every = ("skip", "cancel", "replay", "replay-failed")
    assert {name for name in every if path(occurrence, name) in text} == names


def test_a_preview_changes_nothing(root: Client) -> None:
    occurrence = an_occurrence(S.RUNNING)
    assert "Nothing has happened yet" in page(root, path(occurrence, "cancel"))
    assert Occurrence.objects.get().state == S.RUNNING


def test_cancel_ends_a_running_occurrence_and_logs_the_reason(root: Client) -> None:
    occurrence = an_occurrence(S.RUNNING)
    root.post(path(occurrence, "cancel"), {"reason": "wrong data"})
    assert Occurrence.objects.get().state == S.CANCELED
    assert LogEntry.objects.get().change_message == "wrong data"


def test_a_replay_leads_to_the_new_occurrence(root: Client) -> None:
    occurrence = an_occurrence(S.FAILED)
    response = root.post(path(occurrence, "replay-failed"), {"reason": "again"})
    replayed = Occurrence.objects.get(cause=Cause.REPLAY)
    assert response["Location"] == change_page(replayed)
    assert (replayed.parent_id, replayed.request_reason) == (occurrence.pk, "again")


def test_an_occurrence_that_ended_meanwhile_is_left_alone(root: Client) -> None:
    occurrence = an_occurrence(S.COMPLETED)
    response = root.post(path(occurrence, "cancel"), {"reason": "too slow"}, follow=True)
    assert "nothing was changed" in response.content.decode()
    assert Occurrence.objects.get().state == S.COMPLETED


@pytest.mark.req("REC-4")
@pytest.mark.parametrize("name", ["cancel", "skip", "replay", "replay-failed"])
def test_each_action_needs_its_own_permission(viewer: Viewer, name: str) -> None:
    occurrence = an_occurrence(S.RUNNING)
    client = viewer("punctual.view_occurrence", "punctual.view_job")
    assert client.post(path(occurrence, name)).status_code == 403
    assert path(occurrence, name) not in page(client, change_page(occurrence))


def test_an_unknown_action_is_not_found(root: Client) -> None:
    assert root.get(path(an_occurrence(S.FAILED), "explode")).status_code == 404
