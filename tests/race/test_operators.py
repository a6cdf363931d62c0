"""Two operators request the same at the same time: it is done once, and their audit entries add up."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from punctual import Job
from punctual.jobs import control
from punctual.jobs.models import Job as JobRow
from punctual.occurrences.models import Cause, Cursor, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.operations.dead_letter_actions import purge_dead_letters, replay_dead_letters
from punctual.operations.models import Audit
from punctual.operations.occurrence_actions import cancel_occurrences
from punctual.operations.range_actions import backfill_job
from punctual.operations.sweep_runner import REAP, RECOVER, RESEND, SETTLE, Sweep, run_sweep
from punctual.recovery.dead_letters import DeadLetterFilter
from punctual.recovery.requester import Requester
from punctual.recovery.time_range import TimeRange
from tests.harness import Harness
from tests.occurrences.factories import LEASE, a_run, an_occurrence, start_occurrence
from tests.race.threads import at_once, names

pytestmark = [pytest.mark.req("REC-4"), pytest.mark.req("OPS-2")]

MANY = 60
HOUR = timedelta(hours=1)
S = OccurrenceState
ADA, EVE = Requester("ada", "mine"), Requester("eve", "mine too")


def noop(ctx: object) -> None: ...


def audited_count() -> int:
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


def both(harness: Harness, sweep: Sweep) -> list[int]:
    def asking(by: Requester) -> Callable[[], int]:
        return lambda: run_sweep(sweep, requester=by, now=harness.now).count

    return at_once(asking(ADA), asking(EVE))


@pytest.mark.req("REC-1")
def test_what_is_late_is_caught_up_once(fleet: Harness) -> None:
    each(fleet, S.PENDING, late_at=fleet.now - HOUR)
    assert sum(both(fleet, RECOVER)) == MANY == audited_count()
    assert Occurrence.objects.filter(state=S.MISSED).count() == MANY


@pytest.mark.req("REC-3")
def test_a_message_is_sent_again_once(fleet: Harness) -> None:
    each(fleet, S.DISPATCHED, RunState.SCHEDULED)
    assert sum(both(fleet, RESEND)) == MANY == audited_count()
    assert fleet.work() == MANY


@pytest.mark.req("REC-3")
def test_a_worker_is_requested_once_to_settle(fleet: Harness) -> None:
    each(fleet, S.FAILED, finalized_at=None)
    assert sum(both(fleet, SETTLE)) == MANY == audited_count()
    assert fleet.lose_messages() == MANY


@pytest.mark.req("REC-3")
def test_runs_of_a_lost_worker_are_recovered_once(fleet: Harness) -> None:
    for job in JobRow.objects.prefetch_related("tasks"):
        start_occurrence(job, fleet.now - LEASE, job.tasks.all()[0])
    done = both(fleet, REAP)
    lost = [entry.details["done"]["lost"] for entry in Audit.objects.all()]
    assert sum(lost) == MANY
    assert sum(done) == audited_count()


@pytest.mark.req("TSK-6")
@pytest.mark.parametrize("act", [purge_dead_letters, replay_dead_letters])
def test_a_dead_letter_is_resolved_once(fleet: Harness, act: Callable[..., object]) -> None:
    each(fleet, S.FAILED, RunState.DLQ, finalized_at=fleet.now)
    at_once(*(lambda by=by: act(DeadLetterFilter(), requester=by, now=fleet.now) for by in (ADA, EVE)))
    assert audited_count() == MANY == TaskRun.objects.exclude(resolution="").count()


@pytest.mark.req("REC-5")
def test_an_instant_is_backfilled_once(fleet: Harness) -> None:
    Cursor.objects.update(settled_until=fleet.now)
    job, span = control.get_job(names(1)[0]), TimeRange(fleet.now - 30 * HOUR, fleet.now)
    made = at_once(
        *(lambda by=by: backfill_job(job, span, requester=by, now=fleet.now).created for by in (ADA, EVE))
    )
    assert sum(made) == 30 == audited_count() == Occurrence.objects.filter(cause=Cause.BACKFILL).count()


@pytest.mark.req("EXE-10")
def test_an_occurrence_is_canceled_once(fleet: Harness) -> None:
    each(fleet, S.DISPATCHED, RunState.SCHEDULED)
    ids = list(Occurrence.objects.values_list("id", flat=True))
    done = at_once(*(lambda by=by: cancel_occurrences(ids, requester=by, now=fleet.now) for by in (ADA, EVE)))
    assert sum(done) == MANY == audited_count()
