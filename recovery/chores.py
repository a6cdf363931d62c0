"""A chore of the safety net that a person asks for → done at once, with one entry in the audit (REC-3).

Beats do the same by themselves, every few seconds. A chore is a row of steps; each is repeated until it
finds nothing, and every time it is one transaction together with its count in the audit. What that sets
free is sent after the commit.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from execution.dispatch import dispatch, holding
from execution.hooks import ask_for_hooks
from execution.settle import Settled
from jobs.models import Job
from occurrences.materialize import plan_due
from recovery.audit import Asked, Entry, audited
from recovery.catchup import catch_up
from recovery.models import Action
from recovery.outstanding import Counts, abandoned, behind, owed, unsent
from recovery.reaper import reap
from recovery.replaced import end_replaced
from recovery.resend import resend
from recovery.stale import end_overdue
from recovery.unsettled import ask_to_settle
from recovery.waiting import admit_stranded

Progress = Callable[[int], object]


@dataclass(frozen=True)
class Round:
    """What one transaction found and did, by kind. `count` of it is for the audit; `failed` was refused."""

    found: int
    count: int
    done: Counts
    settled: Settled = Settled()
    bundles: bool = True
    failed: int = 0


@dataclass(frozen=True)
class Step:
    """`sends`: it talks to the broker. Where rows cannot be held meanwhile, its count follows right after."""

    run: Callable[[datetime, Job | None], Round]
    sends: bool = False

    def together(self) -> AbstractContextManager[object]:
        return holding() if self.sends else transaction.atomic()


@dataclass(frozen=True)
class Chore:
    action: Action
    outstanding: Callable[[datetime, Job | None], Counts]
    steps: tuple[Step, ...]

    @property
    def sends(self) -> bool:
        return any(step.sends for step in self.steps)


@dataclass(frozen=True)
class Performed:
    """`failed`: messages the broker did not take. `more`: some are left, for it was enough."""

    count: int
    done: Counts
    failed: int = 0
    more: bool = False


def perform(
    chore: Chore,
    *,
    asked: Asked,
    now: datetime,
    job: Job | None = None,
    most: int | None = None,
    progress: Progress = lambda _count: None,
) -> Performed:
    """`job`: only of this one, which catch-up alone knows; `most` of a step are enough."""
    rounds: list[Round] = []
    enough = False
    details = {"job": job.name} if job else {"jobs": "all"}
    with audited(chore.action, asked, now=now, details=details) as entry:
        for step in chore.steps:
            found = 0
            for taken in _rounds(step, now, job, entry):
                rounds.append(taken)
                found += taken.found
                progress(taken.found)
                if most is not None and found >= most:
                    enough = True
                    break
    done: Counter[str] = Counter()
    for taken in rounds:
        done.update(taken.done)
    more = enough and any(chore.outstanding(now, job).values())
    return Performed(entry.count, dict(done), sum(taken.failed for taken in rounds), more=more)


def _rounds(step: Step, now: datetime, job: Job | None, entry: Entry) -> Iterator[Round]:
    """Until nothing is found."""
    found = 1
    while found:
        with step.together():
            taken = step.run(now, job)
            entry.add(taken.count, **taken.done)
        dispatch(taken.settled.released, now=now, bundles=taken.bundles)
        ask_for_hooks(taken.settled.finished)
        found = taken.found
        yield taken


def _plan(now: datetime, job: Job | None) -> Round:
    planned = plan_due(now, job=job)
    done = {"planned": planned.instants, "in_ranges": planned.absorbed}
    return Round(planned.jobs, planned.absorbed, done)


def _catch_up(now: datetime, job: Job | None) -> Round:
    caught = catch_up(now, job=job)
    done = {"recovered": caught.recovered, "missed": caught.missed, "skipped": caught.skipped}
    return Round(caught.jobs, sum(done.values()), done)


def _reap(now: datetime, _job: Job | None) -> Round:
    reaped = reap(now)
    # What died with its worker shall die alone.
    return Round(reaped.lost, reaped.lost, {"lost": reaped.lost}, reaped.settled, bundles=False)


def _end_overdue(now: datetime, _job: Job | None) -> Round:
    return _ended("stale", end_overdue(now))


def _end_replaced(now: datetime, _job: Job | None) -> Round:
    return _ended("replaced", end_replaced(now))


def _ended(kind: str, settled: Settled) -> Round:
    count = len(settled.finished)
    return Round(count, count, {kind: count}, settled)


def _admit(now: datetime, _job: Job | None) -> Round:
    runs = admit_stranded(now)
    return Round(len(runs), len(runs), {"admitted": len(runs)}, Settled(released=runs))


def _resend(now: datetime, _job: Job | None) -> Round:
    told = resend(now)
    return Round(told.sent, told.sent, {"resent": told.sent}, failed=told.failed)


def _settle(now: datetime, _job: Job | None) -> Round:
    told = ask_to_settle(now)
    return Round(told.sent, told.sent, {"asked": told.sent}, failed=told.failed)


RESENDING, SETTLING = Step(_resend, sends=True), Step(_settle, sends=True)
RECOVER = Chore(Action.RECOVER, behind, (Step(_plan), Step(_catch_up)))
REAP = Chore(
    Action.REAP,
    abandoned,
    (Step(_reap), Step(_end_overdue), Step(_end_replaced), Step(_admit), RESENDING, SETTLING),
)
RESEND = Chore(Action.RESEND, unsent, (RESENDING,))
SETTLE = Chore(Action.SETTLE, owed, (SETTLING,))
