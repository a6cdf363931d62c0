"""Run one tick of the clock: fire what is due, plan what is next, release retries, sweep.

Any number of beats tick at the same time, without a leader and without a lock between them: primary keys
decide who creates an occurrence, and row locks that the others skip decide who fires it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from django.db import OperationalError
from django.db.models import Min

from punctual.execution.broker.dispatch import dispatch
from punctual.jobs.clock import Clock
from punctual.jobs.database_errors import leave_out, unless_locked
from punctual.occurrences.admission.catch_up import fire_catch_up
from punctual.occurrences.admission.firing import BATCH, Fired, fire_due
from punctual.occurrences.models import Cursor, Occurrence, TaskRun
from punctual.occurrences.planning.materialize import Planned, plan_due
from punctual.occurrences.planning.pauses import end_pauses
from punctual.occurrences.states import LIVE_CAUSES, OccurrenceState, RunState
from punctual.recovery.catchup import BATCH as CATCH_UP_BATCH
from punctual.recovery.catchup import CaughtUp, catch_up
from punctual.recovery.sweeper import sweep
from punctual.recovery.sweeper.free_slots import admit_stranded
from punctual.recovery.sweeper.replacement import end_replaced
from punctual.recovery.sweeper.retries import release_due_retries

MAX_SLEEP = timedelta(seconds=1)
CONTENTION_DELAY = timedelta(milliseconds=50)
PLANNING_LATE_AFTER = timedelta(seconds=5)  # a cursor this late was not planned when it should have been
# Rounds of one tick: a beat renews its heartbeat, reads the clock and handles signals after so many.
MAX_ROUNDS = 5
MAX_ABSORBED = 1_000_000  # late instants a tick handles before it continues with what is due now


@dataclass(frozen=True)
class Ticked:
    """Counts of one tick."""

    planned: int = 0
    fired: int = 0
    queued: int = 0
    skipped: int = 0
    missed: int = 0
    retried: int = 0
    contended: int = 0
    swept: sweep.Swept | None = None
    more: bool = False  # work is left after the last round: tick again at once
    careful: bool = False  # another session holds a row that firing needs; see `fire_due`

    @property
    def quiet(self) -> bool:
        counts = (
            self.planned,
            self.fired,
            self.queued,
            self.skipped,
            self.missed,
            self.retried,
            self.contended,
        )
        return not any(counts)


def run_once(
    now: datetime,
    *,
    sweeping: bool = True,
    rounds: int | None = None,
    batch: int = BATCH,
    clock: Clock | None = None,
    careful: bool = False,
) -> Ticked:
    """Do everything that is due at `now`, in at most `rounds` rounds of `batch` rows each.

    `clock` gives the time at which the broker accepted the messages; the default is `now`. `careful`: the
    last tick was. A step that needs a row held by another session is left out; the others go on.
    """
    # Before firing: a retry that needs a slot comes before occurrences that have not started.
    retried = release_due_retries(now) if TaskRun.objects.retry_due(now).exists() else []
    if retried:
        dispatch(retried, now=now, chords=False)
    round_ = partial(_run_round, now, batch, clock or (lambda: now))
    results, more = _run_rounds(rounds, round_, careful=careful)
    if any(item.fired.queued for item in results):
        with unless_locked("queue"):
            # A predecessor may have ended while its job was locked here: its worker has left the rest to us.
            dispatch([*end_replaced(now).released, *admit_stranded(now)], now=now)
    caught_up = Fired()
    if Cursor.objects.catch_up_due(now).exists():
        # After live occurrences, which come first.
        with unless_locked("fire catch-up"):
            caught_up = fire_catch_up(now)
        dispatch(caught_up.ready, now=now, clock=clock)
    return Ticked(
        planned=sum(item.planned.instants for item in results),
        fired=caught_up.fired + sum(item.fired.fired for item in results),
        queued=caught_up.queued + sum(item.fired.queued for item in results),
        skipped=caught_up.skipped + sum(item.fired.skipped for item in results),
        missed=caught_up.missed
        + sum(item.planned.absorbed + item.missed + item.fired.missed for item in results),
        retried=len(retried),
        contended=results[-1].fired.contended,
        swept=sweep.run_once(now) if sweeping else None,
        more=more,
        careful=results[-1].careful,
    )


@dataclass(frozen=True)
class _Round:
    """One batch of planning, catch-up and firing; its messages are sent before the next batch is read."""

    planned: Planned
    missed: int
    fired: Fired
    full: bool  # more is due than one batch
    careful: bool

    @property
    def has_more(self) -> bool:
        return self.planned.more or self.full


def _run_rounds(
    limit: int | None, run_round: Callable[..., _Round], *, careful: bool
) -> tuple[list[_Round], bool]:
    results: list[_Round] = []
    more = True
    while more and len(results) != limit:
        results.append(run_round(first=not results, careful=results[-1].careful if results else careful))
        absorbed = sum(item.planned.absorbed for item in results)
        # Occurrences due now must not wait until every instant of a long outage is recorded.
        more = results[-1].has_more and absorbed < MAX_ABSORBED
    return results, results[-1].has_more


def _run_round(now: datetime, batch: int, clock: Clock, *, first: bool, careful: bool) -> _Round:
    planned, missed = Planned(), 0
    late = Cursor.objects.due(now - PLANNING_LATE_AFTER).exists()
    try:
        if late:
            # After an outage or an edit: plan first, so that older instants are fired before those due now.
            planned = plan_due(now, limit=batch)
    except OperationalError as error:
        leave_out("plan", error)
    try:
        missed = _catch_up(now) if late or first else 0
    except OperationalError as error:
        leave_out("catch up", error)
    try:
        fired = fire_due(now, limit=batch, careful=careful)
    except OperationalError as error:
        leave_out("fire", error)
        fired, careful = fire_due(now, limit=batch, careful=True), True
    dispatch(fired.ready, now=now, clock=clock)
    try:
        if not late:
            # Every job has its next occurrence as a row: fire those first and plan the following ones.
            planned = plan_due(now, limit=batch, seen=fired.jobs)
        if planned.pauses_over:
            end_pauses(planned.pauses_over, now=now)  # the next round plans their jobs
    except OperationalError as error:
        leave_out("plan", error)
    full = fired.more and fired.handled >= batch
    return _Round(planned, missed, fired, full=full, careful=careful and fired.contended > 0)


def _catch_up(now: datetime) -> int:
    missed = 0
    if not Occurrence.objects.due(now).late(now).exists():
        return missed  # as in nearly every tick
    while (step := catch_up(now)) != CaughtUp():
        missed += step.missed
        if step.jobs < CATCH_UP_BATCH:
            break
    return missed


def sleep_for(now: datetime) -> timedelta:
    """The time until the next row is due, at most MAX_SLEEP: other processes may commit new work."""
    next_due = [
        Occurrence.objects.filter(state=OccurrenceState.PENDING, cause__in=LIVE_CAUSES).aggregate(
            at=Min("run_at")
        )["at"],
        TaskRun.objects.filter(state=RunState.RETRY, parked_at=None).aggregate(at=Min("available_at"))["at"],
        Cursor.objects.filter(plan_at__isnull=False).aggregate(at=Min("plan_at"))["at"],
        Cursor.objects.filter(catch_up_at__isnull=False).aggregate(at=Min("catch_up_at"))["at"],
    ]
    times = [at - now for at in next_due if at is not None]
    wait: timedelta = min([*times, MAX_SLEEP])
    return max(wait, timedelta())
