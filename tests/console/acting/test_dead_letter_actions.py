"""Replay and purge of dead letters: previewed, confirmed with a reason, restricted, audited."""

import re
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from punctual.jobs.clock import database_now
from punctual.occurrences.models import Cause, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.operations.models import Audit
from tests.console.fixtures import Viewer, page
from tests.console.ledger_rows import make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2"), pytest.mark.req("TSK-6")]

MINUTE = timedelta(minutes=1)
DISK_FULL, NO_USER = "a" * 16, "b" * 16
RUNS, PURGE, REPLAY = "/admin/punctual/taskrun/", "/admin/dead-letters/purge/", "/admin/dead-letters/replay/"


@pytest.fixture
def dead() -> list[TaskRun]:
    """Three dead letters with one error, one with another."""
    now = database_now() - timedelta(hours=1)
    job, other = make_job("etl", now), make_job("mail", now)
    load, send = make_task(job, "load"), make_task(other, "send")
    failed = OccurrenceState.FAILED
    runs = [
        make_run(
            make_occurrence(job, now - minute * MINUTE, failed), load, RunState.DLQ,
            error="disk full", fingerprint=DISK_FULL,
        )
        for minute in (1, 2, 3)
    ]  # fmt: skip
    occurrence = make_occurrence(other, now - MINUTE, failed)
    return [*runs, make_run(occurrence, send, RunState.DLQ, error="no such <user>", fingerprint=NO_USER)]


def test_a_preview_counts_and_changes_nothing(root: Client, dead: list[TaskRun]) -> None:
    text = page(root, f"{PURGE}?fingerprint={DISK_FULL}&job=etl&task=load")
    assert re.search(r"data-count>3<", text)
    assert TaskRun.objects.dead().count() == 4


def test_dead_letters_with_one_error_are_purged_with_the_reason_in_the_log(
    root: Client, dead: list[TaskRun], admin_user: User
) -> None:
    confirmed = {"fingerprint": DISK_FULL, "reason": "the disk was replaced"}
    response = root.post(PURGE, confirmed, follow=True)
    assert "3 dead letters purged." in response.content.decode()
    assert [run.fingerprint for run in TaskRun.objects.dead()] == [NO_USER]
    entry = LogEntry.objects.get(user=admin_user)
    assert entry.change_message == "the disk was replaced"
    assert Audit.objects.get().count == 3


def test_replayed_dead_letters_become_linked_occurrences(root: Client, dead: list[TaskRun]) -> None:
    root.post(REPLAY, {"job": "etl", "reason": "repaired"})
    replayed = Occurrence.objects.filter(cause=Cause.REPLAY)
    assert {row.parent_id for row in replayed} == {run.occurrence_id for run in dead[:3]}
    assert {row.requested_by for row in replayed} == {"admin"}


def test_runs_that_die_after_the_preview_are_left_alone(root: Client, dead: list[TaskRun]) -> None:
    hidden = re.search(r'name="before" value="([^"]+)"', page(root, f"{PURGE}?job=etl"))
    assert hidden is not None
    late = database_now() + MINUTE
    occurrence = make_occurrence(dead[0].occurrence.job, late, OccurrenceState.FAILED)
    newer = make_run(occurrence, dead[0].task, RunState.DLQ, fingerprint=DISK_FULL, finished_at=late)
    root.post(PURGE, {"job": "etl", "before": hidden[1], "reason": "old"})
    assert [run.pk for run in TaskRun.objects.dead().filter(fingerprint=DISK_FULL)] == [newer.pk]


def test_without_permission_there_is_neither_a_button_nor_a_purge(
    viewer: Viewer, dead: list[TaskRun]
) -> None:
    client = viewer("punctual.view_taskrun")
    assert "Replay" not in page(client, "/admin/dead-letters/")
    assert "Purge dead letters" not in page(client, RUNS)
    assert "dead-letters/purge" not in page(client, f"{RUNS}{dead[0].pk}/change/")
    assert client.post(PURGE, {}).status_code == 403
    assert client.get(PURGE).status_code == 403
    assert TaskRun.objects.dead().count() == 4


def test_one_dead_letter_is_purged_from_its_own_page(root: Client, dead: list[TaskRun]) -> None:
    text = page(root, f"{RUNS}{dead[0].pk}/change/")
    address = f"{PURGE}?runs={dead[0].pk}"
    assert f'href="{address}"' in text
    assert re.search(r"data-count>1<", page(root, address))
    root.post(PURGE, {"runs": str(dead[0].pk), "reason": "known"})
    assert {run.pk for run in TaskRun.objects.dead()} == {run.pk for run in dead[1:]}
    assert address not in page(root, f"{RUNS}{dead[0].pk}/change/")


def test_runs_ticked_in_the_list_are_counted_before_they_are_replayed(
    root: Client, dead: list[TaskRun]
) -> None:
    ticked = [str(dead[0].pk), str(dead[3].pk)]
    response = root.post(RUNS, {"action": "replay", "_selected_action": ticked}, follow=True)
    assert re.search(r"data-count>2<", response.content.decode())
    assert TaskRun.objects.dead().count() == 4
    root.post(REPLAY, {"runs": ",".join(ticked), "reason": "both"})
    assert {str(run.pk) for run in TaskRun.objects.dead()} == {str(run.pk) for run in dead[1:3]}
    assert set(Audit.objects.get().details["ids"]) == set(ticked)


def test_old_dead_letters_are_found_and_purged_by_age(root: Client, dead: list[TaskRun]) -> None:
    old = database_now() - timedelta(days=40)
    TaskRun.objects.filter(pk=dead[0].pk).update(finished_at=old)
    text = page(root, "/admin/dead-letters/?older=30d")
    assert "1 dead letter, 1 error" in text
    link = re.search(r'href="([^"]*dead-letters/purge/[^"]*)"', text)
    assert link is not None
    assert re.search(r"data-count>1<", page(root, link[1].replace("&amp;", "&")))
    root.post(PURGE, {"older": "30d", "reason": "old"})
    assert {run.pk for run in TaskRun.objects.dead()} == {run.pk for run in dead[1:]}


@pytest.mark.parametrize("query", [{"older": "soon"}, {"before": "then"}, {"runs": ""}, {"runs": "x"}])
def test_a_malformed_filter_is_refused_and_never_means_all(
    root: Client, dead: list[TaskRun], query: dict[str, str]
) -> None:
    assert root.post(PURGE, query).status_code == 400
    assert TaskRun.objects.dead().count() == 4


def test_the_audit_shows_what_was_purged_to_users_with_its_permission(
    root: Client, viewer: Viewer, dead: list[TaskRun]
) -> None:
    root.post(PURGE, {"job": "etl", "reason": "the disk was replaced"})
    text = page(root, "/admin/punctual/audit/")
    assert "purge of dead letters" in text
    assert "the disk was replaced" in text
    entry = Audit.objects.get()
    assert "etl" in page(root, f"/admin/punctual/audit/{entry.pk}/change/")
    assert viewer("punctual.view_taskrun").get("/admin/punctual/audit/").status_code == 403
