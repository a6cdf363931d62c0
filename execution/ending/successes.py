"""On PostgreSQL, end plain successes and close their occurrences in one to three statements.

A run without neighbours ends its occurrence in the same statement. One with neighbours ends first, and then
looks whether it was the last: most are not, and are done. What is over with nothing but successes is closed,
a sequence of nothing but successes goes on; whatever else is to be done is left to `settle`.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import transaction

from punctual.execution.ending.settle import Settled, combine, settle
from punctual.execution.ending.summary import summary
from punctual.execution.worker import swiftly
from punctual.execution.worker.claim import Claim, record_attempts
from punctual.jobs.declaration.registry import registry
from punctual.jobs.events import Event, emit, is_logged
from punctual.occurrences import transitions
from punctual.occurrences.admission.waiting import admit_waiting
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.occurrences.swift_endings import Closing, Ending

COMPLETED = OccurrenceState.COMPLETED


class Success(NamedTuple):
    claim: Claim
    log: str


def succeed(items: Sequence[Success], *, now: datetime) -> Settled:
    """Not inside a transaction with others at work: the look must come after the commit of the end."""
    alone = [item for item in items if item.claim.alone]
    beside = [item for item in items if not item.claim.alone]
    settled = _complete(alone, now) if alone else Settled()
    return combine(settled, _end(beside, now)) if beside else settled


def _complete(items: Sequence[Success], now: datetime) -> Settled:
    rows = {item.claim.run.occurrence_id: item.claim.occurrence for item in items}
    endings = [_ending(item, now) for item in items]
    closings = [_closing(item.claim.occurrence, [item.claim.run], now) for item in items]
    if len(items) == 1 and items[0].claim.recorded:
        closed = transitions.swift_complete_one(endings[0], closings[0], now=now)
    else:
        closed = transitions.swift_complete_many(endings, closings, now=now)
    late = [item.claim for item in items if item.claim.run.occurrence_id not in closed]
    return combine(_finished(rows, closings, closed, now), _fenced(late, now))


def _end(items: Sequence[Success], now: datetime) -> Settled:
    endings = [_ending(item, now) for item in items]
    if len(items) == 1 and items[0].claim.recorded:
        ended = transitions.swift_end_one(endings[0], now=now)
    else:
        ended = transitions.swift_end_many(endings, now=now)
    late = [item.claim for item in items if item.claim.run.id not in ended]
    # Also those of the late: this may be the second try of one whose connection broke before it could look.
    rows = {item.claim.run.occurrence_id: item.claim.occurrence for item in items}
    return combine(_take_next_steps(rows, now), _fenced(late, now))


def _take_next_steps(rows: Mapping[UUID, Occurrence], now: datetime) -> Settled:
    over = swiftly.last_out(rows)
    if not over:
        return Settled()
    states = {id_: {run.state for run in runs} for id_, runs in over.items()}
    good = [id_ for id_, found in states.items() if found == {RunState.SUCCESS}]
    going_on = [id_ for id_, found in states.items() if found == {RunState.SUCCESS, RunState.SCHEDULED}]
    others = over.keys() - {*good, *going_on}
    settled = Settled()
    if good:
        closings = [_closing(rows[id_], over[id_], now) for id_ in good]
        settled = _finished(rows, closings, transitions.swift_close(closings, now=now), now)
    if going_on:
        settled = combine(settled, _released([over[id_] for id_ in going_on], now))
    return combine(settled, settle(others, now=now)) if others else settled


def _released(sequences: Sequence[Sequence[TaskRun]], now: datetime) -> Settled:
    """The first of each that waits its turn. No lock: it is released while it waits, or was canceled."""
    steps = [next(run.id for run in runs if run.state == RunState.SCHEDULED) for runs in sequences]
    transitions.release(steps, now=now)
    return Settled(released=tuple(steps))


def _ending(item: Success, now: datetime) -> Ending:
    claim, run = item.claim, item.claim.run
    run.error = ""
    transitions.mirror(run, RunState.SUCCESS, now=now)
    return Ending(
        run.id, run.occurrence_id, claim.token, claim.attempt_id, claim.number, claim.began_at, item.log
    )


def _closing(occurrence: Occurrence, runs: Sequence[TaskRun], now: datetime) -> Closing:
    finalized = not registry.has_complete_hooks(occurrence.job.name)
    return Closing(occurrence.id, finalized, json.dumps(summary(occurrence, runs, COMPLETED, now)))


def _finished(
    rows: Mapping[UUID, Occurrence], closings: Sequence[Closing], closed: Mapping[UUID, bool], now: datetime
) -> Settled:
    """`closed` holds the occurrences this call closed; true: those waiting for their slots are admitted."""
    ended = [rows[item.occurrence] for item in closings if item.occurrence in closed]
    for row in ended if is_logged(Event.OCCURRENCE_FINISHED) else ():
        emit(Event.OCCURRENCE_FINISHED, job=row.job.name, occurrence=row.display_id, outcome=COMPLETED)
    released = _admitted([row for row in ended if closed[row.id]], now)
    owing = tuple(item.occurrence for item in closings if item.occurrence in closed and not item.finalized)
    return Settled(released, tuple(row.id for row in ended), with_hooks=owing)


def _admitted(ended: Sequence[Occurrence], now: datetime) -> tuple[UUID, ...]:
    """A worker that dies before this leaves it to the sweeper, as it does for slots of the dead."""
    if not ended:
        return ()
    with transaction.atomic():
        return admit_waiting(jobs={row.job_id for row in ended}, pools={row.pool for row in ended}, now=now)


def _fenced(late: Sequence[Claim], now: datetime) -> Settled:
    """No longer held by their tokens; what had begun all the same is accounted for."""
    if not late:
        return Settled()
    if unrecorded := [item for item in late if not item.recorded]:
        with transaction.atomic():
            record_attempts(unrecorded, now=now)
    emit(Event.ATTEMPT_FENCED, count=len(late))
    return Settled(fenced=len(late))
