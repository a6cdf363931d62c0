"""Two operators ask for the same at one moment: it is done once, and their entries add up to it."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from jobs import Job, control
from jobs.models import Job as JobRow
from occurrences.models import Cause, Cursor, Occurrence, TaskRun
from occurrences.states import OccurrenceState, RunState
from recovery.audit import Asked
from recovery.backfill import backfill
from recovery.chores import REAP, RECOVER, RESEND, SETTLE, Chore, perform
from recovery.deadletters import Wanted, purge_dead, replay_dead
from recovery.models import Audit
from recovery.operate import cancel_occurrences
from recovery.span import Span
from tests.harness import Harness
from tests.occurrences.ledger import LEASE, a_run, an_occurrence, started
from tests.race.threads import at_once, names

pytestmark = [pytest.mark.req("REC-4"), pytest.mark.req("OPS-2")]

MANY = 60
HOUR = timedelta(hours=1)
S = OccurrenceState
ADA, EVE = Asked("ada", "mine"), Asked("eve", "mine too")


def noop(ctx: object) -> None: ...


def audited() -> int:
    return sum(Audit.objects.values_list("count", flat=True))


@pytest.fixture
def fleet(harness: Harness) -> Harness:
    for name in names(MANY):
        Job(name, "0 * * * *", recovery="mark_as_missed").task(noop)
    harness.sync()
    Cursor.objects.update(plan_at=harness.now + HOUR)
    return harness


def each(harness: Harness, state: OccurrenceState, run: RunState | None = None, **columns: object) -> None:
    for job in JobRow.objects.prefetch_related("tasks"):
        row = an_occurrence(job, harness.now - HOUR, state, **columns)
        row.save(force_insert=True)
        if run:
            a_run(row, job.tasks.all()[0], run).save(force_insert=True)


def both(harness: Harness, chore: Chore) -> list[int]:
    def asking(by: Asked) -> Callable[[], int]:
        return lambda: perform(chore, asked=by, now=harness.now).count

    return at_once(asking(ADA), asking(EVE))


@pytest.mark.req("REC-1")
def test_what_is_late_is_caught_up_once(fleet: Harness) -> None:
    each(fleet, S.PENDING, late_at=fleet.now - HOUR)
    assert sum(both(fleet, RECOVER)) == MANY == audited()
    assert Occurrence.objects.filter(state=S.MISSED).count() == MANY


@pytest.mark.req("REC-3")
def test_a_message_is_sent_again_once(fleet: Harness) -> None:
    each(fleet, S.DISPATCHED, RunState.SCHEDULED)
    assert sum(both(fleet, RESEND)) == MANY == audited()
    assert fleet.work() == MANY


@pytest.mark.req("REC-3")
def test_a_worker_is_asked_once_to_settle(fleet: Harness) -> None:
    each(fleet, S.FAILED, finalized_at=None)
    assert sum(both(fleet, SETTLE)) == MANY == audited()
    assert fleet.lose_messages() == MANY


@pytest.mark.req("REC-3")
def test_what_a_silent_worker_held_is_taken_back_once(fleet: Harness) -> None:
    for job in JobRow.objects.prefetch_related("tasks"):
        started(job, fleet.now - LEASE, job.tasks.all()[0])
    done = both(fleet, REAP)
    lost = [entry.details["done"]["lost"] for entry in Audit.objects.all()]
    assert sum(lost) == MANY
    assert sum(done) == audited()


@pytest.mark.req("TSK-6")
@pytest.mark.parametrize("act", [purge_dead, replay_dead])
def test_a_dead_letter_is_dealt_with_once(fleet: Harness, act: Callable[..., object]) -> None:
    each(fleet, S.FAILED, RunState.DLQ, finalized_at=fleet.now)
    at_once(*(lambda by=by: act(Wanted(), asked=by, now=fleet.now) for by in (ADA, EVE)))
    assert audited() == MANY == TaskRun.objects.exclude(resolution="").count()


@pytest.mark.req("REC-5")
def test_an_instant_is_filled_in_once(fleet: Harness) -> None:
    Cursor.objects.update(settled_until=fleet.now)
    job, span = control.get(names(1)[0]), Span(fleet.now - 30 * HOUR, fleet.now)
    made = at_once(*(lambda by=by: backfill(job, span, asked=by, now=fleet.now).made for by in (ADA, EVE)))
    assert sum(made) == 30 == audited() == Occurrence.objects.filter(cause=Cause.BACKFILL).count()


@pytest.mark.req("EXE-10")
def test_an_occurrence_is_canceled_once(fleet: Harness) -> None:
    each(fleet, S.DISPATCHED, RunState.SCHEDULED)
    ids = list(Occurrence.objects.values_list("id", flat=True))
    done = at_once(*(lambda by=by: cancel_occurrences(ids, asked=by, now=fleet.now) for by in (ADA, EVE)))
    assert sum(done) == MANY == audited()
