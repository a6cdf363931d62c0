"""Leases that ran out → attempts recorded as lost, runs retried or parked (REC-3).

A run of a bundle whose worker died as a whole may have begun or not: nobody is left to tell. It is
accounted for as lost, costs no retry, and goes alone from then on, so that one that kills its worker is
found out.

Safe in any number of processes: the verdict goes through the same `report` a worker uses, under the
occurrence's row lock and with the token of the lost claim, so one loss is recorded once.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F

from execution.claim import Claim, record
from execution.outcome import Ending, Result
from execution.report import Report, report
from execution.settle import Settled, lock
from jobs.events import Event, emit
from occurrences.models import Attempt, TaskRun
from occurrences.states import AttemptState, RunState

BATCH = 200


@dataclass(frozen=True)
class Reaped:
    lost: int = 0
    settled: Settled = Settled()


def reap(now: datetime, *, limit: int = BATCH) -> Reaped:
    silent = TaskRun.objects.expired(now).order_by("lease_until", "id").values_list("id", "occurrence_id")
    found = dict(silent[:limit])
    if not found:
        return Reaped()
    with transaction.atomic():
        lock(set(found.values()))
        # Looked at again under the locks: a lease may have been renewed in the last moment.
        rows = TaskRun.objects.expired(now).filter(id__in=found).order_by("id")
        expired = list(rows.select_for_update(no_key=True))
        reports = [_report(run, run.claim_token) for run in expired if run.claim_token is not None]
        record([item.claim for item in reports if item.claim], now=now)
        _keep_evidence(expired)
        settled = report(reports, now=now) if reports else Settled()
    for run in expired:
        emit(Event.ATTEMPT_LOST, run=run.shown_id, worker=run.claimed_by, heartbeat=run.heartbeat_at)
    return Reaped(lost=len(reports) - settled.fenced, settled=settled)


def _report(run: TaskRun, token: UUID) -> Report:
    if run.state == RunState.RUNNING:
        return Report(run.id, run.occurrence_id, token, _lost(run))
    run.started_at = run.heartbeat_at
    claim = Claim(run, token, run.attempts_made, recorded=False)
    told = _lost(run)
    unsure = replace(told, ending=Ending.UNSURE, error=f"{told.error}; held in a bundle, it may have begun")
    return Report(run.id, run.occurrence_id, token, unsure, claim)


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
