"""Settle occurrences: read their rows, and take the next step. Safe at any time, any number of times.

The row lock of the occurrence serializes its roll-ups: of two runs that end at the same moment the second
sees the first, so the last run to end always settles the occurrence. Completion is decided from rows alone.
The chord's callback, the last report and the sweeper call the same function.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db import transaction

from punctual.execution.ending.steps import RunFacts, Step, next_step
from punctual.execution.ending.summary import summary
from punctual.jobs.config.choices import FailureStrategy
from punctual.jobs.declaration.registry import registry
from punctual.jobs.events import Event, emit
from punctual.occurrences import transitions
from punctual.occurrences.admission.waiting import admit_waiting
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import OCCURRENCE_ACTIVE, RUN_OPEN, OccurrenceState, Reason, RunState


@dataclass(frozen=True)
class Settled:
    """After the commit `released` runs go to dispatch, and `finished` occurrences to their hooks."""

    released: tuple[UUID, ...] = ()
    finished: tuple[UUID, ...] = ()
    fenced: int = 0
    with_hooks: tuple[UUID, ...] = ()  # those of `finished` whose jobs have hooks


def combine(first: Settled, second: Settled) -> Settled:
    return Settled(
        (*first.released, *second.released),
        (*first.finished, *second.finished),
        first.fenced + second.fenced,
        (*first.with_hooks, *second.with_hooks),
    )


def settle(occurrence_ids: Collection[UUID], *, now: datetime) -> Settled:
    with transaction.atomic():
        occurrences = lock_occurrences(occurrence_ids)
        return roll_up(occurrences, read_runs(occurrences), now=now)


def lock_occurrences(
    ids: Collection[UUID], *, states: Collection[OccurrenceState] = OCCURRENCE_ACTIVE
) -> list[Occurrence]:
    """Lock the occurrences that are in these states, in id order; their jobs are read and not locked."""
    rows = Occurrence.objects.filter(id__in=ids, state__in=states).select_related("job").order_by("id")
    return list(rows.select_for_update(of=("self",), no_key=True))


def read_runs(occurrences: Iterable[Occurrence]) -> list[TaskRun]:
    ids = [occurrence.id for occurrence in occurrences]
    rows = TaskRun.objects.filter(occurrence__in=ids).select_related("task")
    return list(rows.order_by("occurrence_id", "position"))


def roll_up(occurrences: Iterable[Occurrence], runs: Iterable[TaskRun], *, now: datetime) -> Settled:
    """Take the next step of each locked occurrence; `runs` are all their runs, as they are now."""
    groups = {key: list(group) for key, group in groupby(runs, key=attrgetter("occurrence_id"))}
    steps = [(row, groups.get(row.id, []), _step(groups.get(row.id, []))) for row in occurrences]
    canceled = [id_ for _, _, step in steps for id_ in step.cancel]
    released = [id_ for _, _, step in steps for id_ in step.release]
    transitions.cancel(canceled, reason=Reason.OTHER_TASK_FAILED, now=now)
    if released:
        transitions.release(released, now=now)
    closed = [
        (row, _apply_step(group, step, now), step.outcome) for row, group, step in steps if step.outcome
    ]
    ended = close(closed, now=now)
    return replace(ended, released=(*released, *ended.released))


def _step(runs: list[TaskRun]) -> Step:
    return next_step([run_facts(run) for run in runs])


def run_facts(run: TaskRun) -> RunFacts:
    return RunFacts(
        id=run.id,
        position=run.position,
        state=RunState(run.state),
        held_back=run.state == RunState.SCHEDULED and run.available_at is None,
        strategy=FailureStrategy(run.policy["failure_strategy"]),
    )


def _apply_step(runs: list[TaskRun], step: Step, now: datetime) -> list[TaskRun]:
    """Set the fields of the runs as the writes left them, for the report, without reading the rows again."""
    for run in runs:
        if run.id in step.cancel and run.state in RUN_OPEN:
            transitions.mirror(run, RunState.CANCELED, now=now, reason=Reason.OTHER_TASK_FAILED)
    return runs


def close(
    closed: Sequence[tuple[Occurrence, list[TaskRun], OccurrenceState]], *, now: datetime, reason: str = ""
) -> Settled:
    """End locked occurrences with an outcome and a report, and admit the occurrences that wait for them."""
    if not closed:
        return Settled()
    reports: dict[UUID, dict[str, Any]] = {
        row.id: summary(row, runs, outcome, now) for row, runs, outcome in closed
    }
    without_hooks = {row.id for row, _, _ in closed if not registry.has_complete_hooks(row.job.name)}
    outcomes = {row.id: outcome for row, _, outcome in closed}
    transitions.finish(outcomes, reports=reports, finalized=without_hooks, now=now, reason=reason)
    for row, _, outcome in closed:
        emit(Event.OCCURRENCE_FINISHED, job=row.job.name, occurrence=row.display_id, outcome=outcome)
    # The slot is free: the next occurrence in the queue starts in the same transaction.
    jobs, pools = {row.job_id for row, _, _ in closed}, {row.pool for row, _, _ in closed}
    admitted = admit_waiting(jobs=jobs, pools=pools, now=now)
    finished = tuple(row.id for row, _, _ in closed)
    return Settled(admitted, finished, with_hooks=tuple(id_ for id_ in finished if id_ not in without_hooks))
