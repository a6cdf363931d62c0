"""Occurrence ids → settled: rows are read, the next step is taken; safe at any time, any number of times.

The occurrence's row lock is the mutex of its roll-up: of two runs that end at the same moment the
second sees the first, so the last one out always settles. Completion is decided from rows alone;
the chord's callback, the last report and the sweeper are three doors to this one function.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db import transaction

from execution.steps import RunFacts, Step, next_step
from execution.summary import summary
from jobs.config import FailureStrategy
from jobs.events import Event, emit
from jobs.registry import registry
from occurrences import transitions
from occurrences.models import Occurrence, TaskRun
from occurrences.states import OCCURRENCE_ACTIVE, RUN_OPEN, OccurrenceState, RunState
from occurrences.waiting import admit_waiting

NEIGHBOUR_FAILED = "a task before or beside it failed"


@dataclass(frozen=True)
class Settled:
    """`released` go to dispatch, `finished` to their completion hooks, both after the commit."""

    released: tuple[UUID, ...] = ()
    finished: tuple[UUID, ...] = ()
    fenced: int = 0
    owing: tuple[UUID, ...] = ()  # those of the finished whose jobs have hooks


def merged(first: Settled, second: Settled) -> Settled:
    return Settled(
        (*first.released, *second.released),
        (*first.finished, *second.finished),
        first.fenced + second.fenced,
        (*first.owing, *second.owing),
    )


def settle(occurrence_ids: Collection[UUID], *, now: datetime) -> Settled:
    with transaction.atomic():
        occurrences = lock(occurrence_ids)
        return roll_up(occurrences, runs_of(occurrences), now=now)


def lock(
    ids: Collection[UUID], *, states: Collection[OccurrenceState] = OCCURRENCE_ACTIVE
) -> list[Occurrence]:
    """Those in these states, locked in id order; the job comes along, unlocked."""
    rows = Occurrence.objects.filter(id__in=ids, state__in=states).select_related("job").order_by("id")
    return list(rows.select_for_update(of=("self",), no_key=True))


def runs_of(occurrences: Iterable[Occurrence]) -> list[TaskRun]:
    ids = [occurrence.id for occurrence in occurrences]
    rows = TaskRun.objects.filter(occurrence__in=ids).select_related("task")
    return list(rows.order_by("occurrence_id", "position"))


def roll_up(occurrences: Iterable[Occurrence], runs: Iterable[TaskRun], *, now: datetime) -> Settled:
    """Take the next step of each locked occurrence; `runs` are all of theirs, as they are now."""
    groups = {key: list(group) for key, group in groupby(runs, key=attrgetter("occurrence_id"))}
    steps = [(row, groups.get(row.id, []), _step(groups.get(row.id, []))) for row in occurrences]
    canceled = [id_ for _, _, step in steps for id_ in step.cancel]
    released = [id_ for _, _, step in steps for id_ in step.release]
    transitions.cancel(canceled, reason=NEIGHBOUR_FAILED, now=now)
    if released:
        transitions.release(released, now=now)
    closed = [(row, _after(group, step, now), step.outcome) for row, group, step in steps if step.outcome]
    ended = close(closed, now=now)
    return replace(ended, released=(*released, *ended.released))


def _step(runs: list[TaskRun]) -> Step:
    return next_step([facts(run) for run in runs])


def facts(run: TaskRun) -> RunFacts:
    return RunFacts(
        id=run.id,
        position=run.position,
        state=RunState(run.state),
        held_back=run.state == RunState.SCHEDULED and run.available_at is None,
        strategy=FailureStrategy(run.policy["failure_strategy"]),
    )


def _after(runs: list[TaskRun], step: Step, now: datetime) -> list[TaskRun]:
    """The runs as the writes above left them, for the report; the rows need not be read again."""
    for run in runs:
        if run.id in step.cancel and run.state in RUN_OPEN:
            transitions.mirror(run, RunState.CANCELED, now=now, reason=NEIGHBOUR_FAILED)
    return runs


def close(
    closed: Sequence[tuple[Occurrence, list[TaskRun], OccurrenceState]], *, now: datetime, reason: str = ""
) -> Settled:
    """End locked occurrences with an outcome and a report, and let the next in line start."""
    if not closed:
        return Settled()
    reports: dict[UUID, dict[str, Any]] = {
        row.id: summary(row, runs, outcome, now) for row, runs, outcome in closed
    }
    hookless = {row.id for row, _, _ in closed if not registry.has_hooks(row.job.name)}
    outcomes = {row.id: outcome for row, _, outcome in closed}
    transitions.finish(outcomes, reports=reports, finalized=hookless, now=now, reason=reason)
    for row, _, outcome in closed:
        emit(Event.OCCURRENCE_FINISHED, job=row.job.name, occurrence=row.shown_id, outcome=outcome)
    # The slot is free: the next in line starts in the same transaction.
    jobs, pools = {row.job_id for row, _, _ in closed}, {row.pool for row, _, _ in closed}
    admitted = admit_waiting(jobs=jobs, pools=pools, now=now)
    finished = tuple(row.id for row, _, _ in closed)
    return Settled(admitted, finished, owing=tuple(id_ for id_ in finished if id_ not in hookless))
