"""Record attempts whose lease expired as lost, and retry or park their runs (REC-3).

A run that was claimed in a bundle may or may not have started when its worker died. It is recorded as lost,
costs no retry, and is sent unbundled from then on, so that a run that crashes its worker is identified.

Safe in any number of processes: the loss goes through the same `report` a worker uses, under the occurrence's
row lock and with the token of the lost claim, so one loss is recorded once.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F

from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import Report, report
from punctual.execution.ending.settle import Settled, lock_occurrences
from punctual.execution.worker.claim import Claim, record_attempts
from punctual.jobs.events import Event, emit
from punctual.occurrences.models import Attempt, TaskRun
from punctual.occurrences.states import AttemptState, RunState

BATCH = 200


@dataclass(frozen=True)
class Reaped:
    lost: int = 0
    settled: Settled = Settled()


def reap(now: datetime, *, limit: int = BATCH) -> Reaped:
    expired = TaskRun.objects.expired(now)
    candidates = dict(expired.order_by("lease_until", "id").values_list("id", "occurrence_id")[:limit])
    if not candidates:
        return Reaped()
    with transaction.atomic():
        lock_occurrences(set(candidates.values()))
        # Read again under the locks: a worker may have renewed its lease in the meantime.
        rows = expired.filter(id__in=candidates).order_by("id")
        runs = list(rows.select_for_update(no_key=True))
        reports = [_report(run, run.claim_token) for run in runs if run.claim_token is not None]
        record_attempts([item.claim for item in reports if item.claim], now=now)
        _copy_lease_to_attempts(runs)
        settled = report(reports, now=now) if reports else Settled()
    for run in runs:
        emit(Event.ATTEMPT_LOST, run=run.display_id, worker=run.claimed_by, heartbeat=run.heartbeat_at)
    return Reaped(lost=len(reports) - settled.fenced, settled=settled)


def _report(run: TaskRun, token: UUID) -> Report:
    result = _lost_result(run)
    if run.state == RunState.RUNNING:
        return Report(run.id, run.occurrence_id, token, result)
    run.started_at = run.heartbeat_at
    claim = Claim(run, token, run.attempts_made, recorded=False)
    error = f"{result.error}; claimed in a bundle, it may have begun"
    return Report(run.id, run.occurrence_id, token, replace(result, ending=Ending.UNSURE, error=error), claim)


def _lost_result(run: TaskRun) -> Result:
    error = (
        f"{run.claimed_by} stopped responding; last heartbeat {run.heartbeat_at}, "
        f"lease expired {run.lease_until}"
    )
    return Result(Ending.LOST, error_type="WorkerLost", error=error)


def _copy_lease_to_attempts(runs: list[TaskRun]) -> None:
    """Keep lease and heartbeat on the attempts as evidence: `report` clears them on the runs."""
    running = Attempt.objects.filter(run__in=[run.id for run in runs], state=AttemptState.RUNNING)
    attempts = list(running.annotate(lease=F("run__lease_until"), beat=F("run__heartbeat_at")))
    for attempt in attempts:
        attempt.lease_until, attempt.heartbeat_at = attempt.lease, attempt.beat
    Attempt.objects.bulk_update(attempts, ["lease_until", "heartbeat_at"])
