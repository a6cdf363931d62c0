"""Dead letters by error: how many first, then replayed or purged, by whoever may, with a line in the log."""

import re
from datetime import datetime, timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from jobs.clock import database_now
from occurrences.models import Cause, Occurrence, TaskRun
from occurrences.states import OccurrenceState, RunState
from recovery.models import Audit
from tests.console.pages import Viewer, page, queries
from tests.console.rows import make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2"), pytest.mark.req("TSK-6")]

MINUTE = timedelta(minutes=1)
FULL, MAIL = "a" * 16, "b" * 16


@pytest.fixture
def dead() -> list[TaskRun]:
    """Three of one error, one of another."""
    now = database_now() - timedelta(hours=1)
    job, other = make_job("etl", now), make_job("mail", now)
    tasks = {job.pk: make_task(job, "load"), other.pk: make_task(other, "send")}
    told = [(job, 1, "disk full", FULL), (job, 2, "disk full", FULL), (job, 3, "disk full", FULL),
            (other, 1, "no such <user>", MAIL)]  # fmt: skip
    return [
        make_run(
            make_occurrence(owner, now - minute * MINUTE, OccurrenceState.FAILED),
            tasks[owner.pk], RunState.DLQ, error=error, fingerprint=fingerprint,
        )
        for owner, minute, error, fingerprint in told
    ]  # fmt: skip


def test_the_same_error_is_one_line_and_the_commonest_comes_first(root: Client, dead: list[TaskRun]) -> None:
    text = page(root, "/admin/dead-letters/")
    assert "4 dead letters, 2 errors" in text
    assert text.index("disk full") < text.index("no such &lt;user&gt;")
    assert "Replay all 4…" in text


def test_an_error_without_a_fingerprint_cannot_be_mistaken_for_all(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    make_run(make_occurrence(job, now, OccurrenceState.FAILED), make_task(job), RunState.DLQ, error="old")
    text = page(root, "/admin/dead-letters/")
    assert "old" in text
    assert "dead-letters/purge/" in text, "for all of them"
    assert text.count("dead-letters/purge/") == 1, "and not for the group"


def test_looking_changes_nothing_and_tells_how_many(root: Client, dead: list[TaskRun]) -> None:
    text = page(root, f"/admin/dead-letters/purge/?fingerprint={FULL}&job=etl&task=load")
    assert re.search(r"data-count>3<", text)
    assert TaskRun.objects.dead().count() == 4


def test_a_group_is_purged_with_a_reason_in_the_log(
    root: Client, dead: list[TaskRun], admin_user: User
) -> None:
    asked = {"fingerprint": FULL, "reason": "the disk was replaced"}
    answer = root.post("/admin/dead-letters/purge/", asked, follow=True)
    assert "3 dead letters are purged." in answer.content.decode()
    assert [run.fingerprint for run in TaskRun.objects.dead()] == [MAIL]
    entry = LogEntry.objects.get(user=admin_user)
    assert entry.change_message == "the disk was replaced"
    assert Audit.objects.get().count == 3


def test_replayed_ones_run_again_as_linked_occurrences(root: Client, dead: list[TaskRun]) -> None:
    root.post("/admin/dead-letters/replay/", {"job": "etl", "reason": "mended"})
    made = Occurrence.objects.filter(cause=Cause.REPLAY)
    assert {row.parent_id for row in made} == {run.occurrence_id for run in dead[:3]}
    assert {row.requested_by for row in made} == {"admin"}


def test_what_dies_after_the_count_was_shown_is_not_part_of_it(root: Client, dead: list[TaskRun]) -> None:
    text = page(root, "/admin/dead-letters/purge/?job=etl")
    held = re.search(r'name="before" value="([^"]+)"', text)
    assert held is not None
    late = database_now() + MINUTE
    occurrence = make_occurrence(dead[0].occurrence.job, late, OccurrenceState.FAILED)
    newer = make_run(occurrence, dead[0].task, RunState.DLQ, fingerprint=FULL, finished_at=late)
    root.post("/admin/dead-letters/purge/", {"job": "etl", "before": held[1], "reason": "old"})
    assert [run.pk for run in TaskRun.objects.dead().filter(fingerprint=FULL)] == [newer.pk]


def test_whoever_may_only_look_sees_no_buttons_and_is_refused(viewer: Viewer, dead: list[TaskRun]) -> None:
    client = viewer("occurrences.view_taskrun")
    assert "Replay" not in page(client, "/admin/dead-letters/")
    assert client.post("/admin/dead-letters/purge/", {}).status_code == 403
    assert client.get("/admin/dead-letters/purge/").status_code == 403
    assert TaskRun.objects.dead().count() == 4


def test_the_page_needs_the_right_to_look(viewer: Viewer) -> None:
    assert viewer("jobs.view_job").get("/admin/dead-letters/").status_code == 403


def test_its_cost_does_not_grow(root: Client, dead: list[TaskRun], now: datetime) -> None:
    few = len(queries(root, "/admin/dead-letters/"))
    for number in range(20):
        job = make_job(f"job {number}", now)
        make_run(
            make_occurrence(job, now, OccurrenceState.FAILED), make_task(job), RunState.DLQ, error=str(number)
        )
    assert len(queries(root, "/admin/dead-letters/")) == few


def test_a_group_leads_to_its_runs(root: Client, dead: list[TaskRun]) -> None:
    text = page(root, f"/admin/occurrences/taskrun/?state__exact=dlq&fingerprint__exact={MAIL}")
    assert str(dead[3].pk) in text
    assert str(dead[0].pk) not in text


def test_one_is_dealt_with_from_its_own_page(root: Client, dead: list[TaskRun]) -> None:
    text = page(root, f"/admin/occurrences/taskrun/{dead[0].pk}/change/")
    address = f"/admin/dead-letters/purge/?runs={dead[0].pk}"
    assert f'href="{address}"' in text
    assert re.search(r"data-count>1<", page(root, address))
    root.post("/admin/dead-letters/purge/", {"runs": str(dead[0].pk), "reason": "known"})
    assert {run.pk for run in TaskRun.objects.dead()} == {run.pk for run in dead[1:]}
    assert address not in page(root, f"/admin/occurrences/taskrun/{dead[0].pk}/change/")


def test_many_are_chosen_in_the_list_and_counted_before_anything_happens(
    root: Client, dead: list[TaskRun]
) -> None:
    chosen = [str(dead[0].pk), str(dead[3].pk)]
    asked = {"action": "replay", "_selected_action": chosen}
    answer = root.post("/admin/occurrences/taskrun/", asked, follow=True)
    assert re.search(r"data-count>2<", answer.content.decode())
    assert TaskRun.objects.dead().count() == 4
    root.post("/admin/dead-letters/replay/", {"runs": ",".join(chosen), "reason": "both"})
    assert {str(run.pk) for run in TaskRun.objects.dead()} == {str(run.pk) for run in dead[1:3]}
    assert set(Audit.objects.get().details["ids"]) == set(chosen)


def test_old_ones_are_found_and_purged_by_their_age(root: Client, dead: list[TaskRun]) -> None:
    old = database_now() - timedelta(days=40)
    TaskRun.objects.filter(pk=dead[0].pk).update(finished_at=old)
    text = page(root, "/admin/dead-letters/?older=30d")
    assert "1 dead letter, 1 error" in text
    found = re.search(r'href="([^"]*dead-letters/purge/[^"]*)"', text)
    assert found is not None
    confirm = page(root, found[1].replace("&amp;", "&"))
    assert re.search(r"data-count>1<", confirm)
    root.post("/admin/dead-letters/purge/", {"older": "30d", "reason": "old"})
    assert {run.pk for run in TaskRun.objects.dead()} == {run.pk for run in dead[1:]}


@pytest.mark.parametrize("asked", [{"older": "soon"}, {"before": "then"}, {"runs": ""}, {"runs": "x"}])
def test_a_filter_that_cannot_be_read_never_means_all(
    root: Client, dead: list[TaskRun], asked: dict[str, str]
) -> None:
    assert root.post("/admin/dead-letters/purge/", asked).status_code == 400
    assert TaskRun.objects.dead().count() == 4


def test_whoever_may_only_look_can_choose_nothing_in_the_list(viewer: Viewer, dead: list[TaskRun]) -> None:
    client = viewer("occurrences.view_taskrun")
    assert "Purge dead letters" not in page(client, "/admin/occurrences/taskrun/")
    assert "dead-letters/purge" not in page(client, f"/admin/occurrences/taskrun/{dead[0].pk}/change/")


def test_what_was_done_is_in_the_audit_for_whoever_may_see_it(
    root: Client, viewer: Viewer, dead: list[TaskRun]
) -> None:
    root.post("/admin/dead-letters/purge/", {"job": "etl", "reason": "the disk was replaced"})
    text = page(root, "/admin/recovery/audit/")
    assert "purge of dead letters" in text
    assert "the disk was replaced" in text
    entry = Audit.objects.get()
    assert "etl" in page(root, f"/admin/recovery/audit/{entry.pk}/change/")
    assert viewer("occurrences.view_taskrun").get("/admin/recovery/audit/").status_code == 403
