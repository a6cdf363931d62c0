"""Run finished occurrences again, as new occurrences linked to them (REC-4).

The id of a replay follows from its parent and the key of the request: a request that is repeated with the
same key (a double click, a command that was run again) creates nothing new. Replays start at the rate of
their job, behind live occurrences, and pools apply; those of one request in the order of the given ids.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, islice
from uuid import UUID, uuid4, uuid5

from django.db import transaction
from django.db.models import Exists, OuterRef

from punctual.jobs.config.cascade import job_config
from punctual.jobs.errors import DefinitionError
from punctual.jobs.models import Job, Origin, Task
from punctual.occurrences import transitions
from punctual.occurrences.engines.current import engine
from punctual.occurrences.models import Cause, Occurrence, Resolution, TaskRun
from punctual.occurrences.planning.cursors import line_up
from punctual.occurrences.planning.new_rows import create_missing, new_occurrence
from punctual.occurrences.querysets import OccurrenceQuerySet, TaskRunQuerySet
from punctual.occurrences.states import OCCURRENCE_FINAL, OccurrenceState, RunState
from punctual.recovery.requester import Record, Requester, unrecorded
from punctual.recovery.time_range import TimeRange

BATCH = 500
MAX_IN_RANGE = 10_000
NOT_SUCCEEDED = (RunState.DLQ, RunState.CANCELED)
MICROSECOND = timedelta(microseconds=1)
Progress = Callable[[int], object]


@dataclass(frozen=True)
class Replayed:
    """`refused`: not finished, a range of instants, of a removed job, or without a task left to run."""

    created: tuple[UUID, ...] = ()
    refused: int = 0


def replay(  # noqa: PLR0913 - one request
    ids: Iterable[UUID],
    *,
    requester: Requester,
    now: datetime,
    failed_only: bool = False,
    key: str | None = None,
    record: Record = unrecorded,
    progress: Progress = lambda _count: None,
) -> Replayed:
    """`failed_only` repeats only the tasks that did not succeed; `key` identifies the request."""
    request = key or str(uuid4())
    order = {id_: place for place, id_ in enumerate(dict.fromkeys(ids))}
    created: list[UUID] = []
    for batch in batches(order):
        with transaction.atomic():
            rows = [
                new_replay(parent, tasks, requester, now, uuid5(parent.id, f"replay:{request}"))
                for parent, tasks in _tasks_to_replay(_parents(batch, order), failed_only=failed_only)
            ]
            for row in rows:
                row.run_at += order[_parent_id(row)] * MICROSECOND
            _resolve_dead_letters(rows, now)
            record(create_missing(rows))
            line_up([row.job_id for row in rows], now=now)
        created += [row.id for row in rows]
        progress(len(batch))
    return Replayed(tuple(created), refused=len(order) - len(created))


def _parents(ids: Collection[UUID], order: Mapping[UUID, int]) -> list[Occurrence]:
    """The occurrences in the given order, locked so that pruning cannot delete them."""
    rows = Occurrence.objects.filter(id__any=engine().lock_parents(ids)).select_related("job")
    return sorted(rows, key=lambda row: order[row.id])


def _resolve_dead_letters(replays: Sequence[Occurrence], now: datetime) -> None:
    """The replays run these dead letters again: a replay of all dead letters must leave them out."""
    tasks = {_parent_id(row): row.only_tasks for row in replays}
    dead = TaskRun.objects.dead().filter(occurrence__in=tasks).order_by("id")
    locked = dead.select_for_update(no_key=True).values_list("id", "occurrence_id", "task_id")
    repeated = [id_ for id_, parent, task in locked if _runs_task(tasks[parent], task)]
    transitions.resolve(repeated, Resolution.REPLAYED, now=now)


def _runs_task(only_tasks: list[str] | None, task: UUID) -> bool:
    return only_tasks is None or str(task) in only_tasks


def _parent_id(row: Occurrence) -> UUID:
    assert row.parent_id is not None  # noqa: S101 - `new_replay` sets it
    return row.parent_id


def replayable(rows: OccurrenceQuerySet, *, failed_only: bool = False) -> OccurrenceQuerySet:
    """Finished, one instant, of a job that still exists; with `failed_only` also with a task that failed."""
    finished = rows.filter(state__in=OCCURRENCE_FINAL, spans_until=None, job__removed_at=None)
    planned = finished.exclude(job__origin=Origin.POLLING)
    return (
        planned.filter(Exists(_failed_runs().filter(occurrence=OuterRef("pk")))) if failed_only else planned
    )


def _failed_runs() -> TaskRunQuerySet:
    return TaskRun.objects.filter(state__in=NOT_SUCCEEDED, task__retired_at=None)


def _tasks_to_replay(
    parents: Sequence[Occurrence], *, failed_only: bool
) -> Iterator[tuple[Occurrence, list[UUID] | None]]:
    """Each occurrence that may be replayed, with the ids of its tasks to run; None for all of them."""
    rows = Occurrence.objects.filter(id__any=[row.id for row in parents])
    allowed = set(replayable(rows).values_list("id", flat=True))
    # The replay of an occurrence that ran only some tasks runs the same tasks.
    chosen = _failed_tasks(parents) if failed_only else _chosen_tasks(parents)
    for parent in parents:
        if parent.id not in allowed:
            continue
        if not failed_only and parent.only_tasks is None:
            yield parent, None
        elif parent.id in chosen:
            yield parent, chosen[parent.id]


def _chosen_tasks(parents: Sequence[Occurrence]) -> dict[UUID, list[UUID]]:
    """The tasks of partial occurrences that still exist; an occurrence without any is left out."""
    wanted = {row.id: [UUID(id_) for id_ in row.only_tasks] for row in parents if row.only_tasks is not None}
    if not wanted:
        return {}
    ids = set(chain.from_iterable(wanted.values()))
    current = set(Task.objects.current().filter(id__in=ids).values_list("id", flat=True))
    kept = {parent: [task for task in tasks if task in current] for parent, tasks in wanted.items()}
    return {parent: tasks for parent, tasks in kept.items() if tasks}


def _failed_tasks(parents: Sequence[Occurrence]) -> dict[UUID, list[UUID]]:
    rows = _failed_runs().filter(occurrence__any=[row.id for row in parents]).order_by("position")
    tasks: dict[UUID, list[UUID]] = {}
    for occurrence, task in rows.values_list("occurrence_id", "task_id"):
        tasks.setdefault(occurrence, []).append(task)
    return tasks


def batches(ids: Iterable[UUID]) -> Iterator[list[UUID]]:
    rest = iter(ids)
    while batch := list(islice(rest, BATCH)):
        yield batch


def new_replay(
    parent: Occurrence, tasks: Collection[UUID] | None, requester: Requester, now: datetime, id_: UUID
) -> Occurrence:
    """An unsaved occurrence that repeats `parent`."""
    job: Job = parent.job
    row = new_occurrence(
        job,
        job_config(job, parent.overrides),
        scheduled_for=parent.scheduled_for,
        run_at=now,
        now=now,
        cause=Cause.REPLAY,
        parent=parent,
        args=parent.args,
        overrides=parent.overrides,
        covers=parent.covers,
        only_tasks=None if tasks is None else [str(task) for task in tasks],
        requested_by=requester.by[:200],
        request_reason=requester.reason[:500],
    )
    row.id = id_
    return row


# -- the occurrences of a job in a range of time --------------------------------------------------------


@dataclass(frozen=True)
class RangeSelection:
    """`ids` in order of instants, the count of each state, and the number of `others` that are left out."""

    ids: tuple[UUID, ...]
    states: Counter[str]
    others: int


def select_range(
    job: Job, span: TimeRange, *, failed_only: bool, seen: datetime, now: datetime, limit: int = MAX_IN_RANGE
) -> RangeSelection:
    """The occurrences in the range that a replay would repeat; a range of more than `limit` is refused.

    Occurrences that finished after `seen` are left out: the operator confirmed the count of that moment.
    """
    span.check(now)
    rows = Occurrence.objects.filter(job=job, scheduled_for__range=(span.since, span.until))
    ids = list(rows.order_by("scheduled_for", "id").values_list("id", flat=True)[: limit + 1])
    if len(ids) > limit:
        reason = f"the range holds more than {limit:,} occurrences; choose a shorter one"
        raise DefinitionError("to", span.until.isoformat(), reason)
    finished = Occurrence.objects.filter(id__any=ids, finished_at__lte=seen)
    originals = originals_to_replay(finished, failed_only=failed_only).order_by("scheduled_for", "id")
    selected = list(originals.values_list("id", "state"))
    states = Counter(state for _, state in selected)
    return RangeSelection(tuple(id_ for id_, _ in selected), states, others=len(ids) - len(selected))


def originals_to_replay(rows: OccurrenceQuerySet, *, failed_only: bool) -> OccurrenceQuerySet:
    """Leave out replays, and, with `failed_only`, failures that a later replay completed."""
    originals = replayable(rows, failed_only=failed_only).exclude(cause=Cause.REPLAY)
    if not failed_only:
        return originals
    completed = Occurrence.objects.filter(
        parent=OuterRef("pk"), cause=Cause.REPLAY, state=OccurrenceState.COMPLETED
    )
    return originals.filter(~Exists(completed))
