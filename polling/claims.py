"""A task that was found due → a claimed run with a fresh attempt, or nothing: somebody was first.

One transaction. The first statement takes the task's row at the revision the decision was made from;
of two processes that decided the same, one finds nothing to update, however quickly the other's
callback came and went. Then the ledger's rows, then the claim with a token and a lease.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.db.models import F

from occurrences import transitions
from occurrences.states import RunState
from polling.due import Start, Why
from polling.ledger import SUPERSEDED, give_up, lose_attempt, open_attempt, open_run
from polling.models import TaskState
from polling.reading import Seen

LEASE = timedelta(seconds=30)


@dataclass(frozen=True)
class Owner:
    """The scheduler that claims: its identifier, and the host and process an operator looks for."""

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
    why: Why
    preempted: bool  # a retry was still waiting


def start(seen: Seen, decision: Start, *, owner: Owner, now: datetime, lease: timedelta) -> Claim | None:
    try:
        with transaction.atomic():
            return _started(seen, decision, owner=owner, now=now, lease=lease)
    except _LostError:
        return None
    except IntegrityError:
        # Another occurrence of the job is active: a manual run, say. It is asked again soon.
        return None


def _started(seen: Seen, decision: Start, *, owner: Owner, now: datetime, lease: timedelta) -> Claim:
    _take(seen, owner, now)
    preempted = decision.why is Why.DUE and _give_up_retry(seen, now)
    run = _claimable(seen, decision, now)
    token = uuid4()
    if transitions.claim([run], token=token, worker=owner.worker, now=now, lease=lease) != 1:
        raise _LostError
    occurrence, number = open_attempt(run, worker=owner.worker, now=now)
    TaskState.objects.filter(job=seen.job).update(run=run)
    job = seen.job
    return Claim(job.name, job.id, occurrence, run, token, number, decision.why, preempted)


def _take(seen: Seen, owner: Owner, now: datetime) -> None:
    row = TaskState.objects.filter(job=seen.job, revision=seen.revision, job__removed_at=None)
    taken = row.update(
        revision=F("revision") + 1,
        scheduler_id=owner.scheduler_id,
        last_attempt_at=now,
        pending_retry_until=None,
    )
    if not taken:
        raise _LostError


def _give_up_retry(seen: Seen, now: datetime) -> bool:
    if seen.run is None or seen.run.state != RunState.FAILED:
        return False
    give_up(seen.run, reason=SUPERSEDED, now=now)
    return True


def _claimable(seen: Seen, decision: Start, now: datetime) -> UUID:
    """The run to claim: a new one, the one that waited, or the one whose process died."""
    if decision.why is Why.DUE or seen.run is None:
        return open_run(seen.job, minute=decision.minute, now=now)
    if decision.why is Why.INTERRUPTED and seen.run.state == RunState.DLQ:
        return open_run(seen.job, minute=None, now=now, repeats=seen.run.occurrence_id)
    released = (
        transitions.reopen([seen.run.id], now=now)
        if decision.why is Why.RETRY
        else lose_attempt(seen.run, now=now)
    )
    if not released:
        raise _LostError
    return seen.run.id


def renew(claims: Iterable[Claim], *, now: datetime, lease: timedelta) -> tuple[Claim, ...]:
    """Extend the leases; returned are the claims that are no longer this scheduler's."""
    return tuple(
        claim
        for claim in claims
        if not transitions.renew(claim.run_id, token=claim.token, now=now, lease=lease)
    )


class _LostError(Exception):
    """Rolls back: what was decided is no longer so."""
