"""Record attempts whose lease expired as lost, and retry or park their runs (REC-3).

A run that was claimed in a bundle may or may not have started when its worker died. It is recorded as lost,
costs no retry, and is sent unbundled from then on, so that a run that crashes its worker is identified.

Safe in any number of processes: the loss goes through the same `report` a worker uses, under the occurrence's
row lock and with the token of the lost claim, so one loss is recorded once. Rows that another session holds
are left to the next sweep.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db import transaction

from punctual.execution.ending.attempt_report import Report, report_of_row
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import report
from punctual.execution.ending.settle import Settled
from punctual.jobs.events import Event, emit
from punctual.occurrences import transitions
from punctual.occurrences.models import Attempt, TaskRun
from punctual.occurrences.states import RunState

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
        free = {row.id for row in transitions.lock_free_occurrences(set(candidates.values()))}
        # Read again under the locks: a worker may have renewed its lease in the meantime.
        rows = expired.filter(id__in=candidates, occurrence__in=free).select_related("task", "occurrence")
        runs = list(rows.order_by("id").select_for_update(of=("self",), no_key=True))
        reports = [_report(run, run.claim_token) for run in runs if run.claim_token is not None]
        settled = report(reports, now=now) if reports else Settled()
        _copy_lease_to_attempts(runs, reports)
    for run in runs:
        emit(Event.ATTEMPT_LOST, run=run.display_id, worker=run.claimed_by, heartbeat=run.heartbeat_at)
    return Reaped(lost=len(reports) - settled.fenced, settled=settled)


def _report(run: TaskRun, token: UUID) -> Report:
    result = _lost_result(run)
    if run.state != RunState.RUNNING:
        error = f"{result.error}; claimed in a bundle, it may have begun"
        result = replace(result, ending=Ending.UNSURE, error=error)
    return report_of_row(run, token, result)


def _lost_result(run: TaskRun) -> Result:
    error = (
        f"{run.claimed_by} stopped responding; last heartbeat {run.heartbeat_at}, "
        f"lease expired {run.lease_until}"
    )
    return Result(Ending.LOST, error_type="WorkerLost", error=error)


def _copy_lease_to_attempts(runs: list[TaskRun], reports: list[Report]) -> None:
    """Keep lease and heartbeat on the attempts as evidence: `report` has cleared them on the runs."""
    attempts = [
        Attempt(id=item.begun.attempt, lease_until=run.lease_until, heartbeat_at=run.heartbeat_at)
        for run, item in zip(runs, reports, strict=True)
    ]
    Attempt.objects.bulk_update(attempts, ["lease_until", "heartbeat_at"])
