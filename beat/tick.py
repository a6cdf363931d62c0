"""Now → one tick of the clock: plan what is next, fire what is due, sweep; and when to come back.

Any number of beats tick at once, without a leader and without a lock between them: creation is
decided by primary keys, firing by row locks that the others skip.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Min

from execution.dispatch import dispatch, send
from occurrences.firing import BATCH as FIRE_BATCH
from occurrences.firing import Fired, fire_due
from occurrences.materialize import Planned, plan_due
from occurrences.models import Cursor, Occurrence, TaskRun
from occurrences.states import OccurrenceState, RunState
from recovery import sweep
from recovery.catchup import BATCH as CATCH_UP_BATCH
from recovery.catchup import CaughtUp, catch_up
from recovery.replaced import end_replaced
from recovery.retries import release_due

LONGEST_SLEEP = timedelta(seconds=1)
AFTER_CONTENTION = timedelta(milliseconds=50)
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


def run_once(now: datetime, *, sweeping: bool = True) -> Ticked:
    planned, absorbed = _plan(now)
    caught = _catch_up(now)
    fired = _fire(now)
    if any(item.queued for item in fired):
        dispatch(end_replaced(now).released, now=now)
    retried = release_due(now)
    dispatch(retried, now=now, chords=False)
    return Ticked(
        planned=planned,
        fired=sum(item.fired for item in fired),
        queued=sum(item.queued for item in fired),
        skipped=sum(item.skipped for item in fired),
        missed=absorbed + caught + sum(item.missed for item in fired),
        retried=len(retried),
        contended=fired[-1].contended,
        swept=sweep.run_once(now) if sweeping else None,
    )


def _plan(now: datetime) -> tuple[int, int]:
    """Batches until nothing is left; a job far behind comes round several times."""
    planned = absorbed = 0
    while (step := plan_due(now)) != Planned():
        planned, absorbed = planned + step.instants, absorbed + step.absorbed
        if not step.jobs:  # every due cursor is held by another beat
            break
        if absorbed >= MOST_ABSORBED:  # what is due now must not wait for what was missed long ago
            break
    return planned, absorbed


def _catch_up(now: datetime) -> int:
    missed = 0
    while (step := catch_up(now)) != CaughtUp():
        missed += step.missed
        if step.jobs < CATCH_UP_BATCH:
            break
    return missed


def _fire(now: datetime) -> list[Fired]:
    steps: list[Fired] = []
    while True:
        step = fire_due(now)
        steps.append(step)
        send(step.ready, now=now)
        if step.handled < FIRE_BATCH:
            return steps


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
