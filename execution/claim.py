"""Run ids from a message → the runs that are now this worker's (TSK-2).

The only run of a message has begun its attempt with the claim. The runs of a bundle are held, and begin
one after the other in memory: their attempts become rows with their results, in one statement for all,
or as soon as one of them takes long (`record`). Until then the worker's shared memory says which have
begun, should the process die; should the whole worker die, each of them may have, and is told so.

One transaction. Order matters: the occurrence is written before its runs, as everywhere, so that a claim
and a report of the same occurrence cannot wait for each other. Nothing claimed: a resent or outdated
message, dropped without a word.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from uuid import UUID, uuid4

from django.db import transaction

from execution import swiftly
from occurrences import transitions
from occurrences.ids import attempt_id
from occurrences.models import Attempt, Occurrence, TaskRun
from occurrences.states import OCCURRENCE_ACTIVE, AttemptState, OccurrenceState, RunState

LEASE = timedelta(seconds=30)


@dataclass(frozen=True)
class Claim:
    run: TaskRun
    token: UUID
    number: int  # of the attempt it has begun, or will begin
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
    started: tuple[UUID, ...] = ()


def claim(run_ids: Sequence[UUID], *, worker: str, now: datetime, lease: timedelta = LEASE) -> Claimed:
    if run_ids and transitions.swift_usable():
        token = uuid4()
        if held := swiftly.claim(run_ids, token=token, worker=worker, now=now, lease=lease):
            return Claimed(
                tuple(_claim(item, token) for item in held),
                tuple({item.run.occurrence_id for item in held if item.started}),
            )
    return _step_by_step(run_ids, worker=worker, now=now, lease=lease)


def _claim(item: swiftly.Held, token: UUID) -> Claim:
    return _claimed(item.run, token, alone=item.alone)


def _claimed(run: TaskRun, token: UUID, *, alone: bool = False) -> Claim:
    begun = run.state == RunState.RUNNING
    return Claim(run, token, run.attempts_made - begun, begun=begun, alone=alone, recorded=begun)


def _step_by_step(run_ids: Sequence[UUID], *, worker: str, now: datetime, lease: timedelta) -> Claimed:
    token = uuid4()
    with transaction.atomic():
        active = TaskRun.objects.filter(id__in=run_ids, occurrence__state__in=OCCURRENCE_ACTIVE)
        rows = list(active.values_list("id", "occurrence_id", "occurrence__state"))
        fresh = sorted({owner for _, owner, state in rows if state == OccurrenceState.DISPATCHED})
        started = transitions.start(fresh, now=now)
        ids = [id_ for id_, *_ in rows]
        # An occurrence that ends from here on cancels its runs, and the guard on the run sees that.
        take = transitions.hold if run_ids[1:] else transitions.claim
        if not take(ids, token=token, worker=worker, now=now, lease=lease):
            transaction.set_rollback(True)
            return Claimed()
        held = TaskRun.objects.filter(id__in=ids, claim_token=token).select_related("task", "occurrence__job")
        claims = [_claimed(run, token) for run in sorted(held, key=lambda run: run_ids.index(run.id))]
        Attempt.objects.bulk_create(_attempt(item) for item in claims if item.begun)
    return Claimed(tuple(claims), tuple(fresh) if started else ())


def begin(item: Claim, *, now: datetime) -> Claim | None:
    """A held run, just before its function is called; None: the lease ran out, it may be another's by now."""
    if item.run.lease_until is None or item.run.lease_until <= now:
        return None
    item.run.started_at, item.run.attempts_made = now, item.number + 1
    return replace(item, begun=True)


def record(items: Sequence[Claim], *, now: datetime) -> None:
    """The attempts of held runs that have begun, as rows; in the transaction of who holds their occurrences.

    What is no longer held by its token is left alone, for others have taken it over. One that was canceled
    after it was claimed did begin all the same, and shall be accounted for.
    """
    for token in {item.token for item in items}:
        mine = {item.run.id: item for item in items if item.token == token}
        times = {id_: item.began_at for id_, item in mine.items()}
        begun = transitions.begin(times, token=token)
        ended = transitions.count_canceled({id_: item.number for id_, item in mine.items()})
        Attempt.objects.bulk_create(
            [
                *(_attempt(mine[id_]) for id_ in begun),
                *(_attempt(mine[id_], AttemptState.CANCELED, now) for id_ in ended),
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
    """Give up runs that have not begun: whoever is free may take them at once, at no attempt's cost."""
    ids = [item.run.id for item in items]
    if not ids:
        return ()
    transitions.hand_back(ids, token=items[0].token, now=now)
    return tuple(ids)
