"""Leases that ran out → attempts recorded as lost, runs retried or parked, unbegun ones sent again (REC-3).

Safe in any number of processes: the verdict goes through the same `report` a worker uses, under the
occurrence's row lock and with the token of the lost claim, so one loss is recorded once.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import F

from execution.outcome import Ending, Result
from execution.report import Report, report
from execution.settle import Settled
from jobs.events import Event, emit
from occurrences import transitions
from occurrences.models import Attempt, TaskRun
from occurrences.states import AttemptState, RunState

BATCH = 200


@dataclass(frozen=True)
class Reaped:
    lost: int = 0
    settled: Settled = Settled()
    unbegun: tuple[UUID, ...] = ()  # back in line, to be sent again


def reap(now: datetime, *, limit: int = BATCH) -> Reaped:
    expired = list(TaskRun.objects.expired(now).order_by("lease_until", "id")[:limit])
    if not expired:
        return Reaped()
    unbegun = _give_up([run.id for run in expired if run.state == RunState.CLAIMED], now)
    expired = [run for run in expired if run.state == RunState.RUNNING]
    _keep_evidence(expired)
    reports = [
        Report(run.id, run.occurrence_id, run.claim_token, _lost(run))
        for run in expired
        if run.claim_token is not None
    ]
    settled = report(reports, now=now) if reports else Settled()
    for run in expired:
        emit(Event.ATTEMPT_LOST, run=run.shown_id, worker=run.claimed_by, heartbeat=run.heartbeat_at)
    return Reaped(lost=len(reports) - settled.fenced, settled=settled, unbegun=unbegun)


def _give_up(ids: list[UUID], now: datetime) -> tuple[UUID, ...]:
    """Held by a dead worker but never begun: no attempt was made, so none is lost."""
    return tuple(ids) if ids and transitions.give_up(ids, now=now) else ()


def _lost(run: TaskRun) -> Result:
    text = (
        f"{run.claimed_by} fell silent; last sign of life {run.heartbeat_at}, lease until {run.lease_until}"
    )
    return Result(Ending.LOST, error_type="WorkerLost", error=text)


def _keep_evidence(runs: list[TaskRun]) -> None:
    """Copy what is known of the lease to the attempts, before the run forgets it."""
    running = Attempt.objects.filter(run__in=[run.id for run in runs], state=AttemptState.RUNNING)
    attempts = list(running.annotate(lease=F("run__lease_until"), beat=F("run__heartbeat_at")))
    for attempt in attempts:
        attempt.lease_until, attempt.heartbeat_at = attempt.lease, attempt.beat
    Attempt.objects.bulk_update(attempts, ["lease_until", "heartbeat_at"])
