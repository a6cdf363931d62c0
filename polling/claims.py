"""Claim a run of a due task and open its attempt; return None if another process was first.

One transaction. The first statement updates the task's row at the revision from which the start was
decided; of two processes with the same decision, one updates no row, even if the other's callback has
already ended. Then the rows of the ledger are written, then the claim with a token and a lease.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.db.models import F

from punctual.occurrences import transitions
from punctual.occurrences.engines.contract import Take
from punctual.occurrences.states import Reason, RunState
from punctual.polling.eligibility import Start, StartReason
from punctual.polling.models import TaskState
from punctual.polling.runs import abandon_retry, lose_attempt, open_attempt, open_run
from punctual.polling.snapshots import TaskSnapshot

LEASE = timedelta(seconds=30)


@dataclass(frozen=True)
class Owner:
    """The scheduler that claims: its identifier, and its host and process for operators."""

    scheduler_id: UUID
    worker: str


@dataclass(frozen=True)
class Claim:
    name: str
    job_id: UUID
    occurrence_id: UUID
    run_id: UUID
    token: UUID
    number: int
    reason: StartReason
    preempted: bool  # a pending retry was abandoned for it


def start(
    snapshot: TaskSnapshot, decision: Start, *, owner: Owner, now: datetime, lease: timedelta
) -> Claim | None:
    try:
        with transaction.atomic():
            return _claim(snapshot, decision, owner=owner, now=now, lease=lease)
    except _LostError:
        return None
    except IntegrityError:
        # Another occurrence of the job is active, for example a manual run. The next poll tries again.
        return None


def _claim(
    snapshot: TaskSnapshot, decision: Start, *, owner: Owner, now: datetime, lease: timedelta
) -> Claim:
    _advance_revision(snapshot, owner, now)
    preempted = decision.reason is StartReason.DUE and _abandon_pending_retry(snapshot, now)
    run = _run_to_claim(snapshot, decision, now)
    token = uuid4()
    if not transitions.claim([run], Take(token, owner.worker, now, now + lease)):
        raise _LostError
    transitions.begin({run: now}, token=token)
    occurrence, number = open_attempt(run, worker=owner.worker, now=now)
    TaskState.objects.filter(job=snapshot.job).update(run=run)
    job = snapshot.job
    return Claim(job.name, job.id, occurrence, run, token, number, decision.reason, preempted)


def _advance_revision(snapshot: TaskSnapshot, owner: Owner, now: datetime) -> None:
    row = TaskState.objects.filter(job=snapshot.job, revision=snapshot.revision, job__removed_at=None)
    updated = row.update(
        revision=F("revision") + 1,
        scheduler_id=owner.scheduler_id,
        last_attempt_at=now,
        pending_retry_until=None,
    )
    if not updated:
        raise _LostError


def _abandon_pending_retry(snapshot: TaskSnapshot, now: datetime) -> bool:
    if snapshot.run is None or snapshot.run.state != RunState.FAILED:
        return False
    abandon_retry(snapshot.run, reason=Reason.LATER_MINUTE, now=now)
    return True


def _run_to_claim(snapshot: TaskSnapshot, decision: Start, now: datetime) -> UUID:
    """The run to claim: a new one, the one that waits for a retry, or the one whose process died."""
    if decision.reason is StartReason.DUE or snapshot.run is None:
        return open_run(snapshot.job, minute=decision.minute, now=now)
    if decision.reason is StartReason.INTERRUPTED and snapshot.run.state == RunState.DLQ:
        return open_run(snapshot.job, minute=None, now=now, repeats=snapshot.run.occurrence_id)
    released = (
        transitions.reopen([snapshot.run.id], now=now)
        if decision.reason is StartReason.RETRY
        else lose_attempt(snapshot.run, now=now)
    )
    if not released:
        raise _LostError
    return snapshot.run.id


def renew(claims: Iterable[Claim], *, now: datetime, lease: timedelta) -> tuple[Claim, ...]:
    """Extend the leases; return the claims that this scheduler has lost."""
    return tuple(
        claim
        for claim in claims
        if not transitions.renew(claim.run_id, token=claim.token, now=now, lease=lease)
    )


class _LostError(Exception):
    """Rolls the transaction back: the decision is out of date."""
