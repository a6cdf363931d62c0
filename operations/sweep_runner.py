"""Run steps of the sweeper for an operator, until they find nothing more, with one audit entry (REC-3).

Beats run the same steps every few seconds. Each pass of a step is one transaction together with its count in
the audit; messages that a pass releases are sent after its commit.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from punctual.execution.broker.dispatch import dispatch, locking_transaction
from punctual.execution.ending.hook_calls import request_hooks
from punctual.execution.ending.settle import Settled
from punctual.jobs.models import Job
from punctual.occurrences.planning.materialize import plan_due
from punctual.operations.action import Progress, no_progress
from punctual.operations.audit import Entry, audited
from punctual.operations.models import AuditedAction
from punctual.operations.sweep_backlog import (
    Counts,
    count_abandoned,
    count_late,
    count_unsent,
    count_unsettled,
)
from punctual.recovery.catchup import catch_up
from punctual.recovery.requester import Requester
from punctual.recovery.sweeper.free_slots import admit_stranded
from punctual.recovery.sweeper.reaper import reap
from punctual.recovery.sweeper.replacement import end_replaced
from punctual.recovery.sweeper.resend import resend
from punctual.recovery.sweeper.settlement import request_settlement
from punctual.recovery.sweeper.timeouts import end_overdue


@dataclass(frozen=True)
class Pass:
    """What one transaction of a step found and changed, by kind; the audit counts `count` of it.

    `failed` counts messages that the broker refused.
    """

    found: int
    count: int
    changes: Counts
    settled: Settled = Settled()
    bundles: bool = True
    failed: int = 0


@dataclass(frozen=True)
class Step:
    """A step that `sends` talks to the broker; without row locks its count is written afterwards."""

    run: Callable[[datetime, Job | None], Pass]
    sends: bool = False

    def transaction(self) -> AbstractContextManager[object]:
        return locking_transaction() if self.sends else transaction.atomic()


@dataclass(frozen=True)
class Sweep:
    """Steps that an operator can start; `outstanding` counts what they would find."""

    action: AuditedAction
    outstanding: Callable[[datetime, Job | None], Counts]
    steps: tuple[Step, ...]

    @property
    def sends(self) -> bool:
        return any(step.sends for step in self.steps)


@dataclass(frozen=True)
class SweepResult:
    """`failed`: messages the broker refused. `more`: the limit was reached before the work was done."""

    count: int
    changes: Counts
    failed: int = 0
    more: bool = False


def run_sweep(
    sweep: Sweep,
    *,
    requester: Requester,
    now: datetime,
    job: Job | None = None,
    limit: int | None = None,
    progress: Progress = no_progress,
) -> SweepResult:
    """Run every step until it finds nothing or has found `limit` rows; `job` confines catch-up to one job."""
    passes: list[Pass] = []
    limited = False
    details = {"job": job.name} if job else {"jobs": "all"}
    with audited(sweep.action, requester, now=now, details=details) as entry:
        for step in sweep.steps:
            found = 0
            for one in _passes(step, now, job, entry):
                passes.append(one)
                found += one.found
                progress(one.found)
                if limit is not None and found >= limit:
                    limited = True
                    break
    changes: Counter[str] = Counter()
    for one in passes:
        changes.update(one.changes)
    more = limited and any(sweep.outstanding(now, job).values())
    return SweepResult(entry.count, dict(changes), sum(one.failed for one in passes), more=more)


def _passes(step: Step, now: datetime, job: Job | None, entry: Entry) -> Iterator[Pass]:
    """Run a step until it finds nothing."""
    found = 1
    while found:
        with step.transaction():
            one = step.run(now, job)
            entry.add(one.count, **one.changes)
        dispatch(one.settled.released, now=now, bundles=one.bundles)
        request_hooks(one.settled.finished)
        found = one.found
        yield one


def _plan(now: datetime, job: Job | None) -> Pass:
    planned = plan_due(now, job=job)
    changes = {"planned": planned.instants, "in_ranges": planned.absorbed}
    return Pass(planned.jobs, planned.absorbed, changes)


def _catch_up(now: datetime, job: Job | None) -> Pass:
    caught = catch_up(now, job=job)
    changes = {"recovered": caught.recovered, "missed": caught.missed, "skipped": caught.skipped}
    return Pass(caught.jobs, sum(changes.values()), changes)


def _reap(now: datetime, _job: Job | None) -> Pass:
    reaped = reap(now)
    # Resend lost runs unbundled: one of them may be what crashes workers.
    return Pass(reaped.lost, reaped.lost, {"lost": reaped.lost}, reaped.settled, bundles=False)


def _end_overdue(now: datetime, _job: Job | None) -> Pass:
    return _ended("stale", end_overdue(now))


def _end_replaced(now: datetime, _job: Job | None) -> Pass:
    return _ended("replaced", end_replaced(now))


def _ended(kind: str, settled: Settled) -> Pass:
    count = len(settled.finished)
    return Pass(count, count, {kind: count}, settled)


def _admit(now: datetime, _job: Job | None) -> Pass:
    runs = admit_stranded(now)
    return Pass(len(runs), len(runs), {"admitted": len(runs)}, Settled(released=runs))


def _resend(now: datetime, _job: Job | None) -> Pass:
    resent = resend(now)
    return Pass(resent.sent, resent.sent, {"resent": resent.sent}, failed=resent.failed)


def _settle(now: datetime, _job: Job | None) -> Pass:
    requested = request_settlement(now)
    return Pass(requested.sent, requested.sent, {"asked": requested.sent}, failed=requested.failed)


RESENDING, SETTLING = Step(_resend, sends=True), Step(_settle, sends=True)
RECOVER = Sweep(AuditedAction.RECOVER, count_late, (Step(_plan), Step(_catch_up)))
REAP = Sweep(
    AuditedAction.REAP,
    count_abandoned,
    (Step(_reap), Step(_end_overdue), Step(_end_replaced), Step(_admit), RESENDING, SETTLING),
)
RESEND = Sweep(AuditedAction.RESEND, count_unsent, (RESENDING,))
SETTLE = Sweep(AuditedAction.SETTLE, count_unsettled, (SETTLING,))
