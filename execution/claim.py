"""Run ids from a message → the runs that are now this worker's, each with a fresh attempt (TSK-2).

One transaction. Order matters: the occurrence is written before its runs, as everywhere, so that a
claim and a report of the same occurrence cannot wait for each other. Nothing claimed: a resent or
outdated message, dropped without a word.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db import transaction

from occurrences import transitions
from occurrences.ids import attempt_id
from occurrences.models import Attempt, Occurrence, TaskRun
from occurrences.states import OCCURRENCE_ACTIVE, OccurrenceState

LEASE = timedelta(seconds=30)


@dataclass(frozen=True)
class Claim:
    run: TaskRun
    token: UUID
    number: int

    @property
    def occurrence(self) -> Occurrence:
        return self.run.occurrence


@dataclass(frozen=True)
class Claimed:
    claims: tuple[Claim, ...] = ()
    started: tuple[UUID, ...] = ()


def claim(run_ids: Sequence[UUID], *, worker: str, now: datetime, lease: timedelta = LEASE) -> Claimed:
    token = uuid4()
    with transaction.atomic():
        active = TaskRun.objects.filter(id__in=run_ids, occurrence__state__in=OCCURRENCE_ACTIVE)
        rows = list(active.values_list("id", "occurrence_id", "occurrence__state"))
        fresh = sorted({owner for _, owner, state in rows if state == OccurrenceState.DISPATCHED})
        started = transitions.start(fresh, now=now)
        # An occurrence that ends from here on cancels its runs, and the guard on the run sees that.
        if not transitions.claim([id_ for id_, *_ in rows], token=token, worker=worker, now=now, lease=lease):
            transaction.set_rollback(True)
            return Claimed()
        claims = _open_attempts(token, worker=worker, now=now)
    return Claimed(claims, tuple(fresh) if started else ())


def _open_attempts(token: UUID, *, worker: str, now: datetime) -> tuple[Claim, ...]:
    mine = TaskRun.objects.filter(claim_token=token).select_related("task", "occurrence__job")
    claims = tuple(Claim(run, token, run.attempts_made - 1) for run in mine.order_by("position"))
    Attempt.objects.bulk_create(
        Attempt(
            id=attempt_id(item.run.id, item.number),
            run=item.run,
            number=item.number,
            worker=worker,
            started_at=now,
        )
        for item in claims
    )
    return claims
