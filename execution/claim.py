"""Run ids from a message → the runs that are now this worker's; the first has begun its attempt (TSK-2).

One transaction. The others of a bundle are held without an attempt until `begin`. Order matters: the
occurrence is written before its runs, as everywhere, so that a claim and a report of the same
occurrence cannot wait for each other. Nothing claimed: a resent or outdated message, dropped without
a word.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db import transaction

from execution import swiftly
from occurrences import transitions
from occurrences.ids import attempt_id
from occurrences.models import Attempt, Occurrence, TaskRun
from occurrences.states import OCCURRENCE_ACTIVE, OccurrenceState, RunState
from occurrences.swift import Start

LEASE = timedelta(seconds=30)


@dataclass(frozen=True)
class Claim:
    run: TaskRun
    token: UUID
    number: int  # of the attempt it has begun, or will begin
    begun: bool = True
    alone: bool = False  # known to be the only run of its occurrence

    @property
    def occurrence(self) -> Occurrence:
        return self.run.occurrence


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
    begun = item.run.state == RunState.RUNNING
    return Claim(item.run, token, item.run.attempts_made - begun, begun=begun, alone=item.alone)


def _step_by_step(run_ids: Sequence[UUID], *, worker: str, now: datetime, lease: timedelta) -> Claimed:
    token = uuid4()
    with transaction.atomic():
        active = TaskRun.objects.filter(id__in=run_ids, occurrence__state__in=OCCURRENCE_ACTIVE)
        rows = list(active.values_list("id", "occurrence_id", "occurrence__state"))
        fresh = sorted({owner for _, owner, state in rows if state == OccurrenceState.DISPATCHED})
        started = transitions.start(fresh, now=now)
        ids = [id_ for id_, *_ in rows]
        # An occurrence that ends from here on cancels its runs, and the guard on the run sees that.
        if not transitions.hold(ids, token=token, worker=worker, now=now, lease=lease):
            transaction.set_rollback(True)
            return Claimed()
        held = TaskRun.objects.filter(id__in=ids, claim_token=token).select_related("task", "occurrence__job")
        runs = sorted(held, key=lambda run: run_ids.index(run.id))
        first = begin(Claim(runs[0], token, runs[0].attempts_made, begun=False), worker=worker, now=now)
    rest = (Claim(run, token, run.attempts_made, begun=False) for run in runs[1:])
    return Claimed((first, *rest) if first else (), tuple(fresh) if started else ())


def begin(item: Claim, *, worker: str, now: datetime) -> Claim | None:
    """Open the attempt, just before its function is called; None: canceled, or the lease ran out."""
    attempt = attempt_id(item.run.id, item.number)
    opened = _begin_swiftly if transitions.swift_usable() else _begin_step_by_step
    if not opened(item, attempt, worker=worker, now=now):
        return None
    item.run.started_at, item.run.attempts_made = now, item.number + 1
    return replace(item, begun=True)


def _begin_swiftly(item: Claim, attempt: UUID, *, worker: str, now: datetime) -> bool:
    return transitions.swift_begin(Start(item.run.id, attempt, item.number, item.token, worker, now))


def _begin_step_by_step(item: Claim, attempt: UUID, *, worker: str, now: datetime) -> bool:
    with transaction.atomic():
        if not transitions.begin([item.run.id], token=item.token, now=now):
            return False
        Attempt.objects.create(
            id=attempt,
            run=item.run,
            number=item.number,
            worker=worker,
            started_at=now,
        )
    return True


def hand_back(items: Sequence[Claim], *, now: datetime) -> tuple[UUID, ...]:
    """Give up runs that have not begun: whoever is free may take them at once, at no attempt's cost."""
    ids = [item.run.id for item in items]
    if not ids:
        return ()
    transitions.hand_back(ids, token=items[0].token, now=now)
    return tuple(ids)
