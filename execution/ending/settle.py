"""Settle occurrences: read their rows, and take the next step. Safe at any time, any number of times.

The row lock of the occurrence serializes its roll-ups, and no run of it can end meanwhile: an ending shares
that lock. Completion is decided from rows alone. The chord's callback, the last report and the sweeper call
the same function.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from django.db import OperationalError, transaction

from punctual.execution.ending.attempt_report import AttemptFacts
from punctual.execution.ending.hook_calls import all_called
from punctual.execution.ending.steps import Step, next_step, summary
from punctual.execution.models import HookEvent
from punctual.jobs.config.choices import Mode
from punctual.jobs.database_errors import is_lock_conflict
from punctual.jobs.events import Event, emit
from punctual.jobs.ids import format_id
from punctual.occurrences import transitions
from punctual.occurrences.admission.slots import ask_for_slots
from punctual.occurrences.admission.waiting import admit_waiting
from punctual.occurrences.engines.contract import Closing, OccurrenceFacts, RunFacts, Wait
from punctual.occurrences.models import Attempt
from punctual.occurrences.states import OCCURRENCE_ACTIVE, AttemptState, OccurrenceState, RunState


class FailedAttempt(NamedTuple):
    """An attempt that has failed, for those who are told about it."""

    run: UUID
    attempt: UUID
    job: str
    task: str
    retry_at: datetime | None  # None: the failure is final
    line: str  # the type and the text of its error
    traceback: str
    exception: Exception | None


Closed = tuple[OccurrenceFacts, Sequence[RunFacts], OccurrenceState]
NextStep = tuple[OccurrenceFacts, list[RunFacts], Step]


@dataclass(frozen=True)
class Settled:
    """After the commit `released` runs go to dispatch, and `finished` occurrences to their hooks."""

    released: tuple[UUID, ...] = ()
    finished: tuple[UUID, ...] = ()
    fenced: int = 0
    with_hooks: tuple[UUID, ...] = ()  # those of `finished` whose jobs have hooks
    cleaning: tuple[UUID, ...] = ()  # canceled, and active until their clean-up is over
    failed: tuple[FailedAttempt, ...] = field(default=(), compare=False)


def combine(first: Settled, second: Settled) -> Settled:
    return Settled(
        (*first.released, *second.released),
        (*first.finished, *second.finished),
        first.fenced + second.fenced,
        (*first.with_hooks, *second.with_hooks),
        (*first.cleaning, *second.cleaning),
        (*first.failed, *second.failed),
    )


def settle(occurrence_ids: Collection[UUID], *, now: datetime, wait: Wait = Wait.NEVER) -> Settled:
    """Occurrences that another process holds are left to it: no run ends while it settles them. If another
    session holds one, the sweeper asks a worker again."""
    with transaction.atomic():
        occurrences = transitions.lock_occurrences(occurrence_ids, wait=wait)
        return roll_up(occurrences, transitions.read_runs([row.id for row in occurrences]), now=now)


def roll_up(occurrences: Iterable[OccurrenceFacts], runs: Iterable[RunFacts], *, now: datetime) -> Settled:
    """Take the next step of each locked occurrence; `runs` are all their runs, as they are now."""
    groups = {key: list(group) for key, group in groupby(runs, key=attrgetter("occurrence_id"))}
    steps = _behind_start_hooks(
        [
            (
                row,
                own := groups.get(row.id, []),
                next_step(own, parallel=row.config.get("mode") == Mode.PARALLEL),
            )
            for row in occurrences
        ]
    )
    released = [id_ for _, _, step in steps for id_ in step.release]
    for reason in {step.cancel_reason for _, _, step in steps if step.cancel}:
        canceled = [id_ for _, _, step in steps if step.cancel_reason == reason for id_ in step.cancel]
        transitions.cancel(canceled, reason=reason, now=now)
    if released:
        transitions.release(released, now=now)
    closed = [
        (row, _after_step(group, step, now), OccurrenceState(row.ending or step.outcome))
        for row, group, step in steps
        if step.outcome
    ]
    ended = close(closed, now=now)
    # A run that was released while its occurrence had no slot waits for one.
    slotless = [(row, step.release) for row, _, step in steps if step.release and not row.holds_slot]
    resting = [row for row, _, step in steps if step.rest and row.holds_slot]
    if slotless:
        ask_for_slots({row.id: parked for row, parked in slotless}, now=now)
        released = [id_ for id_ in released if all(id_ not in parked for _, parked in slotless)]
    if resting:
        transitions.rest([row.id for row in resting])
    admitted = admit_after([*resting, *(row for row, _ in slotless)], now=now)
    return replace(ended, released=(*released, *ended.released, *admitted))


def _behind_start_hooks(steps: Sequence[NextStep]) -> Sequence[NextStep]:
    """Release nothing of an occurrence whose start hooks are not over: no task starts before (JOB-9)."""
    hooks = {
        row.id: names for row, _, step in steps if step.release and (names := row.config.get("on_start"))
    }
    if not hooks:
        return steps
    closed = hooks.keys() - set(all_called(HookEvent.ON_START, hooks))
    return [(row, runs, replace(step, release=()) if row.id in closed else step) for row, runs, step in steps]


def _after_step(runs: list[RunFacts], step: Step, now: datetime) -> list[RunFacts]:
    """The runs as the writes left them, without reading the rows again."""
    canceled = {run.id: canceled_facts(run, step.cancel_reason, now) for run in runs if run.open}
    return [canceled[run.id] if run.id in step.cancel else run for run in runs]


def canceled_facts(run: RunFacts, reason: str, now: datetime) -> RunFacts:
    return run._replace(state=RunState.CANCELED, finished_at=now, reason=reason or run.reason)


def close(
    closed: Sequence[Closed],
    *,
    now: datetime,
    reason: str = "",
    states: Iterable[OccurrenceState] = OCCURRENCE_ACTIVE,
) -> Settled:
    """End locked occurrences with an outcome and a report, and admit the occurrences that wait for them."""
    if not closed:
        return Settled()
    finalized = {row.id: not row.config.get("on_complete") for row, _, _ in closed}
    attempts = _attempts_of([run for _, runs, _ in closed for run in runs])
    reports = {row.id: summary(row, runs, outcome, now, attempts) for row, runs, outcome in closed}
    closings = [
        Closing(row.id, outcome, reason or row.reason, finalized[row.id], json.dumps(reports[row.id]))
        for row, _, outcome in closed
    ]
    ended = transitions.close(closings, states=states, now=now)
    for row, _, outcome in closed:
        if row.id in ended:
            emit(Event.OCCURRENCE_FINISHED, job=row.job, occurrence=format_id("occ", row.id), outcome=outcome)
    # The slot is free: the next occurrence in the queue starts in the same transaction.
    admitted = admit_after([row for row, _, _ in closed if ended.get(row.id)], now=now)
    finished = tuple(ended)
    return Settled(admitted, finished, with_hooks=tuple(id_ for id_ in finished if not finalized[id_]))


def _attempts_of(runs: Sequence[RunFacts]) -> dict[UUID, list[AttemptFacts]]:
    """The attempts of runs that are over. A run that succeeded at once has the times of its attempt."""
    known = {
        run.id: [AttemptFacts(AttemptState.SUCCESS, run.started_at, run.finished_at, "")]
        for run in runs
        if run.state == RunState.SUCCESS and run.attempts_made == 1 and run.started_at
    }
    others = [run.id for run in runs if run.attempts_made and run.id not in known]
    return {**known, **read_attempts(others)} if others else known


def read_attempts(run_ids: Collection[UUID]) -> dict[UUID, list[AttemptFacts]]:
    rows = Attempt.objects.filter(run__in=run_ids).order_by("run_id", "number")
    attempts: dict[UUID, list[AttemptFacts]] = {}
    for row in rows.only("run_id", "state", "started_at", "finished_at", "error_type", "error"):
        line = f"{row.error_type}: {row.error}" if row.error_type else row.error
        facts = AttemptFacts(row.state, row.started_at, row.finished_at, line)
        attempts.setdefault(row.run_id, []).append(facts)
    return attempts


def admit_after(ended: Sequence[OccurrenceFacts], *, now: datetime) -> tuple[UUID, ...]:
    """Admit occurrences that wait for the slots of these.

    A worker that dies before this leaves it to the sweeper, which looks for free slots; so does a worker that
    cannot lock a pool in time.
    """
    if not ended:
        return ()
    jobs, pools = {row.job_id for row in ended}, {row.pool for row in ended}
    try:
        with transaction.atomic():
            return admit_waiting(jobs=jobs, pools=pools, now=now)
    except OperationalError as error:
        if not is_lock_conflict(error):
            raise
        emit(Event.ADMISSION_BLOCKED, pools=sorted(pools))
        return ()
