"""A replay is a new occurrence, linked to its parent, with a reason and an author."""

import json
from functools import partial
from io import StringIO
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from punctual import Context, Job, Retry
from punctual.console.acting.admin_log import log_change
from punctual.jobs.models import Job as JobRow
from punctual.jobs.models import Task
from punctual.occurrences.models import Occurrence, Pool, TaskRun
from punctual.operations.models import Audit
from punctual.operations.occurrence_actions import replay_occurrences
from punctual.recovery.dead_letters import DeadLetterFilter, replay_dead
from punctual.recovery.replay import originals_to_replay
from punctual.recovery.requester import Requester
from tests.harness import Harness, at_the_hour

pytestmark = pytest.mark.req("REC-4")

BY = Requester("ada", "the source was wrong")


def noop(ctx: Context) -> None: ...


class Flaky:
    """Whether the task `flaky` fails."""

    broken = True


def flaky(ctx: Context) -> None:
    if Flaky.broken:
        raise ValueError("broken")


def failed_occurrence(harness: Harness, **config: Any) -> Occurrence:
    """An occurrence of three tasks: the first succeeded, the second failed, the third was canceled."""
    Flaky.broken = True
    job = Job("job", "0 * * * *", retry=Retry(0, "1s"), **config)
    job.task(name="one")(noop)
    job.task(name="two")(flaky)
    job.task(name="three")(noop)
    at_the_hour(harness)
    harness.work()
    (row,) = Occurrence.objects.filter(finished_at__isnull=False)
    assert row.state == "failed"
    Flaky.broken = False
    return row


def rerun(harness: Harness, *ids: UUID, **options: Any) -> list[Occurrence]:
    created = replay_occurrences(ids, requester=BY, now=harness.now, **options).created
    harness.tick()
    harness.work()
    return list(Occurrence.objects.filter(id__in=created).order_by("run_at"))


def test_a_replay_is_a_new_linked_occurrence_with_a_reason_and_an_author(harness: Harness) -> None:
    row = failed_occurrence(harness)
    harness.pass_time(minutes=5)
    (again,) = rerun(harness, row.id)
    assert (again.state, again.cause, again.parent_id) == ("completed", "replay", row.id)
    assert (again.requested_by, again.request_reason) == ("ada", "the source was wrong")
    assert (again.scheduled_for, again.run_at) == (row.scheduled_for, harness.now)
    assert [run.task.name for run in again.runs.order_by("position")] == ["one", "two", "three"]
    row.refresh_from_db()
    assert row.state == "failed", "the parent does not change"
    (entry,) = Audit.objects.all()
    assert (entry.action, entry.requested_by, entry.count, entry.details["of"]) == (
        "replay",
        "ada",
        1,
        [str(row.id)],
    )


def test_failed_only_repeats_the_tasks_that_did_not_succeed(harness: Harness) -> None:
    row = failed_occurrence(harness)
    Flaky.broken = True
    (again,) = rerun(harness, row.id, failed_only=True)
    assert [run.task.name for run in again.runs.order_by("position")] == ["two", "three"]
    assert again.state == "failed"
    Flaky.broken = False
    (third,) = rerun(harness, again.id)
    assert [run.task.name for run in third.runs.order_by("position")] == ["two", "three"], (
        "the replay of a partial replay runs the same tasks"
    )
    assert third.state == "completed"


def test_requests_with_the_same_key_create_one_replay(harness: Harness) -> None:
    row = failed_occurrence(harness, overlap="allow")
    first = replay_occurrences([row.id], requester=BY, now=harness.now, key="a form")
    twice = replay_occurrences([row.id], requester=BY, now=harness.now, key="a form")
    other = replay_occurrences([row.id], requester=BY, now=harness.now)
    assert first.created == twice.created != other.created
    assert Occurrence.objects.filter(cause="replay").count() == 2
    assert Audit.objects.count() == 2


def test_active_occurrences_ranges_and_removed_jobs_are_refused(harness: Harness) -> None:
    row = failed_occurrence(harness)
    (pending,) = Occurrence.objects.filter(state="pending")
    assert replay_occurrences([pending.id, uuid4()], requester=BY, now=harness.now).refused == 2
    Occurrence.objects.filter(id=pending.id).update(
        state="missed", finished_at=harness.now, spans_until="2099-01-01T00:00Z", instants=9
    )
    assert replay_occurrences([pending.id], requester=BY, now=harness.now).refused == 1
    JobRow.objects.update(removed_at=harness.now)
    assert replay_occurrences([row.id], requester=BY, now=harness.now).refused == 1
    assert Audit.objects.count() == 0


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace", "queue_latest"])
def test_replays_of_an_exclusive_job_wait_for_each_other_whatever_its_policy(
    harness: Harness, overlap: str
) -> None:
    row = failed_occurrence(harness, overlap=overlap)
    ids = [replay_occurrences([row.id], requester=BY, now=harness.now).created[0] for _ in range(3)]
    harness.tick()
    states = sorted(Occurrence.objects.filter(id__in=ids).values_list("state", flat=True))
    assert states == ["dispatched", "queued", "queued"]
    harness.work()
    assert set(Occurrence.objects.filter(id__in=ids).values_list("state", flat=True)) == {"completed"}


def test_a_replay_waits_for_a_full_pool_and_not_for_a_paused_job(harness: Harness) -> None:
    row = failed_occurrence(harness, overlap="allow")
    Pool.objects.update(size=0)
    JobRow.objects.update(paused_at=harness.now)
    (waiting,) = rerun(harness, row.id)
    assert (waiting.state, waiting.reason) == ("queued", "pool")
    Pool.objects.update(size=1)
    harness.tick()
    harness.work()
    waiting.refresh_from_db()
    assert waiting.state == "completed"


@pytest.mark.req("OPS-2")
def test_a_replay_by_a_logged_in_user_is_in_djangos_log(harness: Harness) -> None:
    row = failed_occurrence(harness)
    user = get_user_model().objects.create(username="ada")
    requester = Requester("ada", "why not", log=partial(log_change, user))
    replay_occurrences([row.id], requester=requester, now=harness.now)
    (entry,) = LogEntry.objects.all()
    assert (entry.user_id, entry.change_message) == (user.pk, "why not")


def test_the_number_of_statements_per_batch_is_constant(
    harness: Harness, django_assert_max_num_queries: Any
) -> None:
    Job("job", "* * * * *", overlap="allow").task(noop)
    harness.sync()
    harness.tick()
    harness.pass_time(minutes=200)
    harness.tick()
    ids = list(Occurrence.objects.filter(state="missed").values_list("id", flat=True))
    assert len(ids) > 190
    with django_assert_max_num_queries(20):  # SQLite takes the rows in several inserts
        assert len(replay_occurrences(ids, requester=BY, now=harness.now).created) == len(ids)


@pytest.mark.req("OPS-3")
def test_the_command_replays_by_id_and_by_filter_with_a_dry_run(harness: Harness) -> None:
    row = failed_occurrence(harness)
    command = [
        "occurrences",
        "replay",
        "--job",
        "job",
        "--state",
        "failed",
        "--reason",
        "again",
        "--by",
        "eve",
    ]
    assert "would be replayed  1" in output(*command, "--dry-run")
    assert Occurrence.objects.filter(cause="replay").count() == 0
    created = json.loads(
        output("occurrences", "replay", row.display_id, "--json", "--key", "k", "--by", "eve")
    )
    assert created == json.loads(
        output("occurrences", "replay", row.display_id, "--json", "--key", "k", "--by", "eve")
    )
    shown = json.loads(output("occurrences", "show", created[0]["occurrence"], "--json"))
    assert (shown["cause"], shown["requested_by"], shown["parent"]) == ("replay", "eve", row.display_id)
    assert row.display_id in output("occurrences", "list", "--state", "failed")
    with pytest.raises(CommandError, match="expected ids, or a filter"):
        output("occurrences", "replay")


def test_a_range_is_replayed_in_order_without_replays_and_failures_that_were_replayed(
    harness: Harness,
) -> None:
    Flaky.broken = True
    job = Job("job", "* * * * *", overlap="allow", retry=Retry(0, "1s"))
    job.task(name="one")(noop)
    job.task(name="two")(flaky)
    harness.sync()
    for minute in range(4):
        Flaky.broken = minute % 2 == 0
        harness.live(minutes=1, step=60)
    ended = Occurrence.objects.filter(finished_at__isnull=False)
    states = list(ended.order_by("scheduled_for").values_list("state", flat=True))
    assert sorted(states) == ["completed", "completed", "failed", "failed"]
    span = ["occurrences", "replay", "--job", "job", "--from", "2026-01-01", "--to", "2099-01-01"]
    assert "would be replayed  4" in output(*span, "--dry-run")
    assert "would be replayed  2" in output(*span, "--failed-only", "--dry-run")
    Flaky.broken = False
    originals = originals_to_replay(ended, failed_only=True).order_by("scheduled_for")
    created = rerun(harness, *originals.values_list("id", flat=True), failed_only=True)
    harness.pass_time(seconds=1)
    harness.tick()
    harness.work()
    assert [row.scheduled_for for row in created] == sorted(row.scheduled_for for row in created)
    assert created[0].run_at < created[1].run_at
    assert "would be replayed  0" in output(*span, "--failed-only", "--dry-run")
    assert "would be replayed  4" in output(*span, "--dry-run")


@pytest.mark.req("OPS-3")
@pytest.mark.req("EXE-10")
def test_the_commands_cancel_active_and_skip_pending_occurrences(harness: Harness) -> None:
    Job("job", "0 * * * *").task(noop)
    at_the_hour(harness)
    active = Occurrence.objects.get(state="dispatched")
    pending = Occurrence.objects.get(state="pending")
    assert "canceled  1" in output("occurrences", "cancel", active.display_id, "--reason", "stop")
    assert "skipped  1" in output("occurrences", "skip", str(pending.id))
    with pytest.raises(SystemExit, match="1"):  # it is active, so it is not skipped
        output("occurrences", "skip", str(active.id))
    assert Audit.objects.get(action="skip").details["occurrences"] == [str(pending.id)]
    active.refresh_from_db()
    pending.refresh_from_db()
    assert (active.state, pending.state, pending.reason) == ("canceled", "skipped", "operator")
    assert sorted(Audit.objects.values_list("action", "count")) == [("cancel", 1), ("skip", 1)]


def output(*words: str) -> str:
    out = StringIO()
    call_command("punctual", *words, stdout=out)
    return out.getvalue()


def test_a_replayed_occurrence_has_no_open_dead_letters(harness: Harness) -> None:
    original = failed_occurrence(harness)
    rerun(harness, original.id)
    (dead,) = TaskRun.objects.filter(occurrence=original, state="dlq")
    assert (dead.resolution, dead.resolved_at) == ("replayed", harness.now)
    assert replay_dead(DeadLetterFilter(), requester=BY, now=harness.now).count == 0


def test_a_partial_replay_leaves_the_dead_letters_of_other_tasks_open(harness: Harness) -> None:
    original = failed_occurrence(harness)
    third = TaskRun.objects.get(occurrence=original, task__name="three")
    Occurrence.objects.filter(pk=original.pk).update(only_tasks=[str(third.task_id)])
    rerun(harness, original.id)
    assert TaskRun.objects.dead().get().task.name == "two"


def test_a_replay_without_a_task_left_is_refused(harness: Harness) -> None:
    original = failed_occurrence(harness)
    second = TaskRun.objects.get(occurrence=original, task__name="two")
    Occurrence.objects.filter(pk=original.pk).update(only_tasks=[str(second.task_id)])
    Task.objects.filter(pk=second.task_id).update(retired_at=harness.now)
    replayed = replay_occurrences([original.id], requester=BY, now=harness.now)
    assert (replayed.created, replayed.refused) == ((), 1)
    assert TaskRun.objects.dead().count() == 1, "its dead letter stays open"


def test_a_replay_is_listed_above_its_original(harness: Harness) -> None:
    original = failed_occurrence(harness)
    harness.pass_time(minutes=1)
    (again,) = rerun(harness, original.id)
    newest = Occurrence.objects.filter(finished_at__isnull=False)
    assert [row.id for row in newest] == [again.id, original.id]
