"""One request is one audit entry, and its count is right wherever the process dies (REC-4).

Each action runs in batches of two and dies at its k-th SQL statement or broker call, for every k. The count
of the entry must equal what the database holds.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection

from punctual import Context, Job
from punctual.console.acting.admin_log import log_change
from punctual.jobs import control
from punctual.jobs.declaration.registry import registry
from punctual.occurrences.models import Cause, Cursor, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.operations.dead_letter_actions import purge_dead_letters, replay_dead_letters
from punctual.operations.models import Audit
from punctual.operations.occurrence_actions import cancel_occurrences, replay_occurrences, skip_occurrences
from punctual.operations.prune_actions import prune_job
from punctual.operations.range_actions import backfill_job
from punctual.operations.sweep_runner import RECOVER, RESEND, run_sweep
from punctual.recovery.dead_letters import DeadLetterFilter
from punctual.recovery.requester import Requester
from punctual.recovery.time_range import TimeRange
from tests.flow.faults import dying_at
from tests.harness import Harness, at_the_hour
from tests.occurrences.factories import a_run, an_occurrence

pytestmark = [pytest.mark.req("REC-4"), pytest.mark.req("OPS-2")]

HOUR = timedelta(hours=1)
ROWS, MAX_STEPS = 5, 300
S = OccurrenceState


def noop(ctx: Context) -> None: ...


@pytest.fixture
def requester(db: None) -> Requester:
    user = User.objects.create_user("ada", password=None)
    return Requester("ada", "because", log=partial(log_change, user))


@pytest.fixture(autouse=True)
def batches_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("replay", "dead_letters", "backfill", "pruning"):
        monkeypatch.setattr(f"punctual.recovery.{name}.BATCH", 2)
    monkeypatch.setattr("punctual.recovery.catchup.catch_up.__kwdefaults__", {"job": None, "limit": 2})
    monkeypatch.setattr("punctual.recovery.sweeper.resend.resend.__kwdefaults__", {"limit": 2})


def ledger(harness: Harness, state: OccurrenceState, run: RunState | None = None, **columns: Any) -> None:
    """Five occurrences of a job in one state, each with a run."""
    Job("job", "0 * * * *", overlap="allow", retention="1h").task(noop)
    harness.start_at(harness.now)
    job = control.get_job("job")
    (task,) = job.tasks.all()
    for number in range(2, ROWS + 2):
        row = an_occurrence(job, harness.now - number * HOUR, state, **columns)
        row.save(force_insert=True)
        if run:
            a_run(row, task, run, error="broken").save(force_insert=True)


def finished(harness: Harness) -> None:
    ledger(harness, S.FAILED, RunState.CANCELED, finalized_at=harness.now)


def dead_letters(harness: Harness) -> None:
    ledger(harness, S.FAILED, RunState.DLQ, finalized_at=harness.now)


def ids() -> list[Any]:
    rows = Occurrence.objects.exclude(cause=Cause.REPLAY).order_by("scheduled_for")
    return list(rows.values_list("id", flat=True))


def count_in_state(state: str) -> int:
    return Occurrence.objects.filter(state=state, reason="operator").count()


def count_by_cause(cause: Cause) -> int:
    return Occurrence.objects.filter(cause=cause).count()


def fill_in(requester: Requester, harness: Harness) -> None:
    span = TimeRange(harness.now - 20 * HOUR, harness.now - 15 * HOUR)
    Cursor.objects.update(settled_until=harness.now)
    backfill_job(control.get_job("job"), span, requester=requester, now=harness.now)


def late_jobs(harness: Harness) -> None:
    """Five jobs with a late occurrence each; planning is up to date."""
    for number in range(ROWS):
        Job(f"job-{number}", "0 * * * *", recovery="mark_as_missed").task(noop)
    harness.start_at(harness.now)
    for number in range(ROWS):
        at = harness.now - HOUR
        an_occurrence(control.get_job(f"job-{number}"), at, late_at=at).save(force_insert=True)
    Cursor.objects.update(plan_at=harness.now + HOUR)


Act = Callable[[Requester, Harness], object]
STORIES: dict[str, tuple[Callable[[Harness], None], Act, Callable[[], int]]] = {
    "cancel": (
        lambda harness: ledger(harness, S.DISPATCHED, RunState.SCHEDULED),
        lambda requester, harness: cancel_occurrences(ids(), requester=requester, now=harness.now),
        lambda: count_in_state("canceled"),
    ),
    "skip": (
        lambda harness: ledger(harness, S.PENDING),
        lambda requester, harness: skip_occurrences(ids(), requester=requester, now=harness.now),
        lambda: count_in_state("skipped"),
    ),
    "replay": (
        finished,
        lambda requester, harness: replay_occurrences(ids(), requester=requester, now=harness.now),
        lambda: count_by_cause(Cause.REPLAY),
    ),
    "dlq_replay": (
        dead_letters,
        lambda requester, harness: replay_dead_letters(
            DeadLetterFilter(job="job"), requester=requester, now=harness.now
        ),
        lambda: count_by_cause(Cause.REPLAY),
    ),
    "dlq_purge": (
        dead_letters,
        lambda requester, harness: purge_dead_letters(
            DeadLetterFilter(job="job"), requester=requester, now=harness.now
        ),
        lambda: TaskRun.objects.filter(resolution="purged").count(),
    ),
    "prune": (
        finished,
        lambda requester, harness: prune_job(control.get_job("job"), requester=requester, now=harness.now),
        lambda: ROWS - Occurrence.objects.exclude(finished_at=None).count(),
    ),
    "backfill": (finished, fill_in, lambda: count_by_cause(Cause.BACKFILL)),
    "recover": (
        late_jobs,
        lambda requester, harness: run_sweep(RECOVER, requester=requester, now=harness.now),
        lambda: Occurrence.objects.filter(state="missed").count(),
    ),
    "resend": (
        lambda harness: ledger(harness, S.DISPATCHED, RunState.SCHEDULED),
        lambda requester, harness: run_sweep(RESEND, requester=requester, now=harness.now),
        lambda: TaskRun.objects.exclude(dispatched_at=None).count(),
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_the_entry_counts_what_was_done_wherever_the_process_dies(
    harness: Harness, requester: Requester, name: str
) -> None:
    prepare, act, count_done = STORIES[name]
    partial_entries = 0
    for number in range(1, MAX_STEPS):
        delete_everything(harness)
        prepare(harness)
        with dying_at(number) as steps:
            act(requester, harness)
        counts = [row.count for row in Audit.objects.filter(action=name)]
        exact = name != "resend" or connection.features.has_select_for_update
        assert sum(counts) == count_done() if exact else sum(counts) <= count_done(), steps.taken[-1]
        assert len(counts) <= 1, "one request, one entry"
        assert LogEntry.objects.count() == len(counts)
        if not steps.crashed:
            break
        partial_entries += bool(counts) and counts[0] < ROWS
        assert not Audit.objects.filter(finished=True, count__lt=ROWS).exists()
    (entry,) = Audit.objects.filter(action=name)
    assert (entry.count, entry.finished) == (ROWS, True)
    assert (entry.requested_by, entry.reason) == ("ada", "because")
    assert partial_entries, "it never died between two batches"


def delete_everything(harness: Harness) -> None:
    for model in (LogEntry, Audit):
        model.objects.all().delete()
    TaskRun.objects.all().delete()
    Occurrence.objects.all().delete()
    registry.jobs.clear()
    harness.lose_messages()


def test_an_entry_records_the_filter_or_the_ids(harness: Harness, requester: Requester) -> None:
    finished(harness)
    chosen = ids()
    criteria = {"job": "job", "from": "then"}
    replay_occurrences(chosen, requester=requester, now=harness.now, key="k", criteria=criteria)
    replay_occurrences(chosen[:1], requester=requester, now=harness.now, key="l", failed_only=True)
    first, second = Audit.objects.order_by("id")
    assert (first.count, first.details) == (ROWS, {"key": "k", "failed_only": False, **criteria})
    assert second.details == {"key": "l", "failed_only": True, "of": [str(chosen[0])]}


def test_an_entry_without_a_filter_records_all_dead_letters(harness: Harness, requester: Requester) -> None:
    dead_letters(harness)
    purge_dead_letters(DeadLetterFilter(), requester=requester, now=harness.now)
    assert Audit.objects.get().details == {"dead_letters": "all"}


def test_an_action_that_changes_nothing_writes_no_entry(harness: Harness, requester: Requester) -> None:
    Job("job", "0 * * * *").task(noop)
    at_the_hour(harness)
    assert cancel_occurrences([], requester=requester, now=harness.now) == 0
    assert skip_occurrences([], requester=requester, now=harness.now) == 0
    assert purge_dead_letters(DeadLetterFilter(), requester=requester, now=harness.now).count == 0
    assert not Audit.objects.exists()
