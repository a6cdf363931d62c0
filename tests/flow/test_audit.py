"""One request is one entry in the audit, and what it says is true wherever the process died (REC-4).

Each act is done in batches of two, and dies at its k-th SQL statement or word to the broker, for every k
there is. What the entry counts must be what the database holds.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection

from jobs import Context, Job, control
from jobs.registry import registry
from occurrences.models import Cause, Cursor, Occurrence, TaskRun
from occurrences.states import OccurrenceState, RunState
from recovery.audit import Asked
from recovery.backfill import backfill
from recovery.chores import RECOVER, RESEND, perform
from recovery.deadletters import Wanted, purge_dead, replay_dead
from recovery.models import Audit
from recovery.operate import cancel_occurrences, skip_occurrences
from recovery.replay import replay
from recovery.retention import prune
from recovery.span import Span
from tests.flow.faults import dying_at
from tests.harness import Harness, at_the_hour
from tests.occurrences.ledger import a_run, an_occurrence

pytestmark = [pytest.mark.req("REC-4"), pytest.mark.req("OPS-2")]

HOUR = timedelta(hours=1)
MANY, MOST_STEPS = 5, 300
S = OccurrenceState


def noop(ctx: Context) -> None: ...


@pytest.fixture
def asked(db: None) -> Asked:
    user = User.objects.create_user("ada", password=None)
    return Asked("ada", "because", user.pk)


@pytest.fixture(autouse=True)
def batches_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("replay", "deadletters", "backfill", "retention"):
        monkeypatch.setattr(f"recovery.{name}.BATCH", 2)
    monkeypatch.setattr("recovery.catchup.catch_up.__kwdefaults__", {"job": None, "limit": 2})
    monkeypatch.setattr("recovery.resend.resend.__kwdefaults__", {"limit": 2})


def ledger(harness: Harness, state: OccurrenceState, run: RunState | None = None, **columns: Any) -> None:
    """Five occurrences of a job in one state, each with a run."""
    Job("job", "0 * * * *", overlap="allow", retention="1h").task(noop)
    harness.start_at(harness.now)
    job = control.get("job")
    (task,) = job.tasks.all()
    for number in range(2, MANY + 2):
        row = an_occurrence(job, harness.now - number * HOUR, state, **columns)
        row.save(force_insert=True)
        if run:
            a_run(row, task, run, error="broken").save(force_insert=True)


def over(harness: Harness) -> None:
    ledger(harness, S.FAILED, RunState.CANCELED, finalized_at=harness.now)


def dead(harness: Harness) -> None:
    ledger(harness, S.FAILED, RunState.DLQ, finalized_at=harness.now)


def ids() -> list[Any]:
    rows = Occurrence.objects.exclude(cause=Cause.REPLAY).order_by("scheduled_for")
    return list(rows.values_list("id", flat=True))


def with_state(state: str) -> int:
    return Occurrence.objects.filter(state=state, reason="operator").count()


def made_by(cause: Cause) -> int:
    return Occurrence.objects.filter(cause=cause).count()


def fill_in(asked: Asked, harness: Harness) -> None:
    span = Span(harness.now - 20 * HOUR, harness.now - 15 * HOUR)
    Cursor.objects.update(settled_until=harness.now)
    backfill(control.get("job"), span, asked=asked, now=harness.now)


def behind(harness: Harness) -> None:
    """Five jobs with a late occurrence each, and planned up to now."""
    for number in range(MANY):
        Job(f"job-{number}", "0 * * * *", recovery="mark_as_missed").task(noop)
    harness.start_at(harness.now)
    for number in range(MANY):
        at = harness.now - HOUR
        an_occurrence(control.get(f"job-{number}"), at, late_at=at).save(force_insert=True)
    Cursor.objects.update(plan_at=harness.now + HOUR)


Act = Callable[[Asked, Harness], object]
STORIES: dict[str, tuple[Callable[[Harness], None], Act, Callable[[], int]]] = {
    "cancel": (
        lambda harness: ledger(harness, S.DISPATCHED, RunState.SCHEDULED),
        lambda asked, harness: cancel_occurrences(ids(), asked=asked, now=harness.now),
        lambda: with_state("canceled"),
    ),
    "skip": (
        lambda harness: ledger(harness, S.PENDING),
        lambda asked, harness: skip_occurrences(ids(), asked=asked, now=harness.now),
        lambda: with_state("skipped"),
    ),
    "replay": (
        over,
        lambda asked, harness: replay(ids(), asked=asked, now=harness.now),
        lambda: made_by(Cause.REPLAY),
    ),
    "dlq_replay": (
        dead,
        lambda asked, harness: replay_dead(Wanted(job="job"), asked=asked, now=harness.now),
        lambda: made_by(Cause.REPLAY),
    ),
    "dlq_purge": (
        dead,
        lambda asked, harness: purge_dead(Wanted(job="job"), asked=asked, now=harness.now),
        lambda: TaskRun.objects.filter(resolution="purged").count(),
    ),
    "prune": (
        over,
        lambda asked, harness: prune(control.get("job"), asked=asked, now=harness.now),
        lambda: MANY - Occurrence.objects.exclude(finished_at=None).count(),
    ),
    "backfill": (over, fill_in, lambda: made_by(Cause.BACKFILL)),
    "recover": (
        behind,
        lambda asked, harness: perform(RECOVER, asked=asked, now=harness.now),
        lambda: Occurrence.objects.filter(state="missed").count(),
    ),
    "resend": (
        lambda harness: ledger(harness, S.DISPATCHED, RunState.SCHEDULED),
        lambda asked, harness: perform(RESEND, asked=asked, now=harness.now),
        lambda: TaskRun.objects.exclude(dispatched_at=None).count(),
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_wherever_it_dies_its_entry_counts_what_was_done(harness: Harness, asked: Asked, name: str) -> None:
    begin, act, done = STORIES[name]
    halves = 0
    for number in range(1, MOST_STEPS):
        forget_everything(harness)
        begin(harness)
        with dying_at(number) as steps:
            act(asked, harness)
        told = [row.count for row in Audit.objects.filter(action=name)]
        sure = name != "resend" or connection.features.has_select_for_update
        assert sum(told) == done() if sure else sum(told) <= done(), steps.taken[-1]
        assert len(told) <= 1, "one request, one entry"
        assert LogEntry.objects.count() == len(told)
        if not steps.crashed:
            break
        halves += bool(told) and told[0] < MANY
        assert not Audit.objects.filter(finished=True, count__lt=MANY).exists()
    (entry,) = Audit.objects.filter(action=name)
    assert (entry.count, entry.finished) == (MANY, True)
    assert (entry.requested_by, entry.reason) == ("ada", "because")
    assert halves, "it never died between two batches"


def forget_everything(harness: Harness) -> None:
    for model in (LogEntry, Audit):
        model.objects.all().delete()
    TaskRun.objects.all().delete()
    Occurrence.objects.all().delete()
    registry.jobs.clear()
    harness.lose_messages()


def test_a_filter_is_told_as_it_was_asked_for_and_ids_by_name(harness: Harness, asked: Asked) -> None:
    over(harness)
    chosen = ids()
    told = {"job": "job", "from": "then"}
    replay(chosen, asked=asked, now=harness.now, key="k", told=told)
    replay(chosen[:1], asked=asked, now=harness.now, key="l", failed_only=True)
    first, second = Audit.objects.order_by("id")
    assert (first.count, first.details) == (MANY, {"key": "k", "failed_only": False, **told})
    assert second.details == {"key": "l", "failed_only": True, "of": [str(chosen[0])]}


def test_an_entry_of_dead_letters_says_all_when_all_were_meant(harness: Harness, asked: Asked) -> None:
    dead(harness)
    purge_dead(Wanted(), asked=asked, now=harness.now)
    assert Audit.objects.get().details == {"dead_letters": "all"}


def test_an_act_that_is_refused_leaves_no_entry(harness: Harness, asked: Asked) -> None:
    Job("job", "0 * * * *").task(noop)
    at_the_hour(harness)
    assert cancel_occurrences([], asked=asked, now=harness.now) == 0
    assert skip_occurrences([], asked=asked, now=harness.now) == 0
    assert purge_dead(Wanted(), asked=asked, now=harness.now).count == 0
    assert not Audit.objects.exists()
