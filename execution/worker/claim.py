"""Claim runs for a worker and start their occurrences (TSK-2).

The only run of a message begins its attempt with the claim. The runs of a bundle are claimed together and
begin one after the other in memory. Their attempts become rows with their results, in one statement for all,
or as soon as one of them takes long (`record_attempts`). Until then the worker's shared memory says which
runs have begun, in case the process dies. If the whole worker dies, each run of the bundle may have begun,
and its attempt says so.

Everything happens in one transaction. The occurrence is written before its runs, as in every other step, to
avoid a deadlock between a claim and a report of the same occurrence. If nothing can be claimed, the message
was resent or is outdated, and it is ignored silently.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from uuid import UUID, uuid4

from django.db import transaction

from punctual.execution.worker import swiftly
from punctual.occurrences import transitions
from punctual.occurrences.ids import attempt_id
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import OCCURRENCE_ACTIVE, AttemptState, OccurrenceState, RunState

LEASE = timedelta(seconds=30)


@dataclass(frozen=True)
class Claim:
    run: TaskRun
    token: UUID
    number: int  # of its attempt
    begun: bool = True
    alone: bool = False  # known to be the only run of its occurrence
    recorded: bool = True  # its attempt is a row

    @property
    def occurrence(self) -> Occurrence:
        return self.run.occurrence

    @cached_property
    def attempt_id(self) -> UUID:
        return attempt_id(self.run.id, self.number)

    @property
    def began_at(self) -> datetime:
        return self.run.started_at or self.occurrence.run_at


@dataclass(frozen=True)
class Claimed:
    claims: tuple[Claim, ...] = ()
    started: tuple[UUID, ...] = ()  # occurrences


def claim(run_ids: Sequence[UUID], *, worker: str, now: datetime, lease: timedelta = LEASE) -> Claimed:
    if run_ids and transitions.swift_usable():
        token = uuid4()
        if held := swiftly.claim(run_ids, token=token, worker=worker, now=now, lease=lease):
            return Claimed(
                tuple(_new_claim(item.run, token, alone=item.alone) for item in held),
                tuple({item.run.occurrence_id for item in held if item.started}),
            )
    return _step_by_step(run_ids, worker=worker, now=now, lease=lease)


def _new_claim(run: TaskRun, token: UUID, *, alone: bool = False) -> Claim:
    begun = run.state == RunState.RUNNING
    return Claim(run, token, run.attempts_made - begun, begun=begun, alone=alone, recorded=begun)


def _step_by_step(run_ids: Sequence[UUID], *, worker: str, now: datetime, lease: timedelta) -> Claimed:
    token = uuid4()
    with transaction.atomic():
        active = TaskRun.objects.filter(id__in=run_ids, occurrence__state__in=OCCURRENCE_ACTIVE)
        rows = list(active.values_list("id", "occurrence_id", "occurrence__state"))
        unstarted = sorted({owner for _, owner, state in rows if state == OccurrenceState.DISPATCHED})
        started = transitions.start(unstarted, now=now)
        ids = [id_ for id_, *_ in rows]
        # If the occurrence ends from here on, its runs are canceled, and the guard of the claim sees that.
        take = transitions.hold if run_ids[1:] else transitions.claim
        if not take(ids, token=token, worker=worker, now=now, lease=lease):
            transaction.set_rollback(True)
            return Claimed()
        runs = TaskRun.objects.filter(id__in=ids, claim_token=token).select_related("task", "occurrence__job")
        claims = [_new_claim(run, token) for run in sorted(runs, key=lambda run: run_ids.index(run.id))]
        Attempt.objects.bulk_create(_attempt(item) for item in claims if item.begun)
    return Claimed(tuple(claims), tuple(unstarted) if started else ())


def begin(item: Claim, *, now: datetime) -> Claim | None:
    """Begin a claimed run just before its function is called; None if its lease has expired."""
    if item.run.lease_until is None or item.run.lease_until <= now:
        return None
    item.run.started_at, item.run.attempts_made = now, item.number + 1
    return replace(item, begun=True)


def record_attempts(items: Sequence[Claim], *, now: datetime) -> None:
    """Insert the attempts of runs that have begun; the caller has locked their occurrences.

    A run that another worker has claimed meanwhile is skipped. A run that was canceled after the claim has
    begun nevertheless, and gets a canceled attempt.
    """
    for token in {item.token for item in items}:
        claims = {item.run.id: item for item in items if item.token == token}
        times = {id_: item.began_at for id_, item in claims.items()}
        begun = transitions.begin(times, token=token)
        canceled = transitions.count_canceled({id_: item.number for id_, item in claims.items()})
        Attempt.objects.bulk_create(
            [
                *(_attempt(claims[id_]) for id_ in begun),
                *(_attempt(claims[id_], AttemptState.CANCELED, now) for id_ in canceled),
            ]
        )


def _attempt(
    item: Claim, state: AttemptState = AttemptState.RUNNING, finished_at: datetime | None = None
) -> Attempt:
    return Attempt(
        id=item.attempt_id,
        run_id=item.run.id,
        number=item.number,
        state=state,
        worker=item.run.claimed_by,
        started_at=item.began_at,
        finished_at=finished_at,
    )


def hand_back(items: Sequence[Claim], *, now: datetime) -> tuple[UUID, ...]:
    """Give up runs that have not begun: another worker may claim them, and it costs them no attempt."""
    ids = [item.run.id for item in items]
    if not ids:
        return ()
    transitions.hand_back(ids, token=items[0].token, now=now)
    return tuple(ids)
