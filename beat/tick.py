"""Now → one tick of the clock: plan what is next, fire what is due, sweep; and when to come back.

Any number of beats tick at once, without a leader and without a lock between them: creation is
decided by primary keys, firing by row locks that the others skip.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db.models import Min

from execution.dispatch import Outgoing, dispatch, send
from jobs.clock import Clock
from occurrences import foresight
from occurrences.firing import BATCH, Fired, fire_due
from occurrences.materialize import Planned, plan_due
from occurrences.models import Cursor, Occurrence, TaskRun
from occurrences.ready import Ready
from occurrences.states import OccurrenceState, RunState
from recovery import sweep
from recovery.catchup import BATCH as CATCH_UP_BATCH
from recovery.catchup import CaughtUp, catch_up
from recovery.replaced import end_replaced
from recovery.retries import release_due

LONGEST_SLEEP = timedelta(seconds=1)
AFTER_CONTENTION = timedelta(milliseconds=50)
BEHIND = timedelta(seconds=5)  # a cursor this late was not planned when it should have been
# What a beat does between two signs of life, and before it looks at the clock and at signals again.
ROUNDS = 5
MOST_ABSORBED = 1_000_000  # late instants a tick looks at before it fires


@dataclass(frozen=True)
class Ticked:
    planned: int = 0
    fired: int = 0
    queued: int = 0
    skipped: int = 0
    missed: int = 0
    retried: int = 0
    contended: int = 0
    swept: sweep.Swept | None = None
    more: bool = False  # rounds ran out before the work did: come back at once

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
) -> Ticked:
    """Everything that is due at `now`, or as much of it as fits into so many rounds of so many rows.

    `clock` says when the broker has taken the messages; without one it is `now`.
    """
    done, more = _rounds(rounds, partial(_round, now, batch, clock or (lambda: now)))
    if any(item.fired.queued for item in done):
        dispatch(end_replaced(now).released, now=now)
    retried = release_due(now)
    dispatch(retried, now=now, chords=False)
    return Ticked(
        planned=sum(item.planned.instants for item in done),
        fired=sum(item.fired.fired for item in done),
        queued=sum(item.fired.queued for item in done),
        skipped=sum(item.fired.skipped for item in done),
        missed=sum(item.planned.absorbed + item.caught + item.fired.missed for item in done),
        retried=len(retried),
        contended=done[-1].fired.contended,
        swept=sweep.run_once(now) if sweeping else None,
        more=more,
    )


@dataclass(frozen=True)
class _Round:
    """One batch of each: what is due goes out before the next batch is even looked at."""

    planned: Planned
    caught: int
    fired: Fired

    full: bool

    @property
    def goes_on(self) -> bool:
        return self.planned.jobs > 0 or self.full


def _rounds(most: int | None, one: Callable[..., _Round]) -> tuple[list[_Round], bool]:
    done: list[_Round] = []
    more = True
    while more and len(done) != most:
        done.append(one(first=not done))
        absorbed = sum(item.planned.absorbed for item in done)
        # What is due now must not wait for what was missed long ago.
        more = done[-1].goes_on and absorbed < MOST_ABSORBED
    return done, done[-1].goes_on


def _round(now: datetime, batch: int, clock: Clock, *, first: bool) -> _Round:
    if Cursor.objects.due(now - BEHIND).exists():
        # After an outage or an edit: what was owed before comes before what is due now.
        planned = plan_due(now, limit=batch)
        caught = _catch_up(now)
        fired = _fire(now, batch, clock, _Beside(now))
        return _Round(planned, caught, fired, full=fired.handled >= batch)
    # Their next occurrences are rows already: what is due need not wait for planning those after them.
    caught = _catch_up(now) if first else 0
    beside = _Beside(now)
    fired = _fire(now, batch, clock, beside)
    planned = foresight.write(beside.foreseen) + plan_due(now, limit=batch)
    return _Round(planned, caught, fired, full=fired.handled >= batch)


class _Beside:
    """What is worked out while the database writes: the messages, and what follows in each job."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self.outgoing = Outgoing(())
        self.foreseen = foresight.Foreseen()

    def prepare(self, plans: Mapping[str, tuple[Any, ...]], ready: Sequence[Ready]) -> Callable[[], None]:
        self.outgoing = Outgoing(ready).ask()

        def meanwhile() -> None:
            self.outgoing.make()
            self.foreseen = foresight.foresee(plans.values(), self._now)

        return meanwhile


def _catch_up(now: datetime) -> int:
    missed = 0
    while (step := catch_up(now)) != CaughtUp():
        missed += step.missed
        if step.jobs < CATCH_UP_BATCH:
            break
    return missed


def _fire(now: datetime, batch: int, clock: Clock, beside: _Beside) -> Fired:
    fired = fire_due(now, limit=batch, prepare=beside.prepare)
    send(beside.outgoing, clock=clock)
    return fired


def sleep_for(now: datetime) -> timedelta:
    """Until the next row is due, a second at most: work committed elsewhere shall not wait longer."""
    next_due = [
        Occurrence.objects.filter(state=OccurrenceState.PENDING).aggregate(at=Min("run_at"))["at"],
        TaskRun.objects.filter(state=RunState.RETRY).aggregate(at=Min("available_at"))["at"],
        Cursor.objects.filter(plan_at__isnull=False).aggregate(at=Min("plan_at"))["at"],
    ]
    times = [at - now for at in next_due if at is not None]
    wait: timedelta = min([*times, LONGEST_SLEEP])
    return max(wait, timedelta())
