"""Find dead letters, group them by error, replay each as an occurrence of its one task, or purge it (TSK-6).

A dead letter is resolved once: its resolution is written by a guarded update in the transaction that creates
the new occurrence. They are handled in batches with a constant number of statements each.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from django.db import transaction
from django.db.models import Count, Max, Min, Q

from punctual.jobs.models import Task
from punctual.occurrences import transitions
from punctual.occurrences.models import Occurrence, Resolution, TaskRun
from punctual.occurrences.planning.cursors import line_up
from punctual.occurrences.planning.new_rows import create_missing
from punctual.occurrences.querysets import TaskRunQuerySet
from punctual.recovery.replay import new_replay
from punctual.recovery.requester import Record, Requester, unrecorded

BATCH = 500
Progress = Callable[[int], object]


@dataclass(frozen=True)
class DeadLetterFilter:
    """A filter of dead letters; an empty field matches all."""

    ids: tuple[UUID, ...] = ()
    job: str = ""
    task: str = ""
    fingerprint: str = ""
    search: str = ""
    before: datetime | None = None

    def details(self) -> dict[str, Any]:
        """The filter as JSON, for the audit entry."""
        criteria = {name: value for name, value in asdict(self).items() if value}
        if not criteria:
            return {"dead_letters": "all"}
        return {
            name: [str(id_) for id_ in value] if name == "ids" else str(value)
            for name, value in criteria.items()
        }


@dataclass(frozen=True)
class Group:
    """Dead letters with the same error."""

    fingerprint: str
    job: str
    task: str
    count: int
    first: datetime
    last: datetime
    error: str


@dataclass(frozen=True)
class Resolved:
    count: int = 0
    created: tuple[UUID, ...] = ()


def find_dead_letters(which: DeadLetterFilter) -> TaskRunQuerySet:
    """Unresolved dead letters, newest first."""
    rows = TaskRun.objects.dead()
    if which.ids:
        rows = rows.filter(id__in=which.ids)
    if which.job:
        rows = rows.filter(task__job__name=which.job)  # by task: there are far fewer tasks than occurrences
    if which.task:
        rows = rows.filter(task__name=which.task)
    if which.fingerprint:
        rows = rows.filter(fingerprint=which.fingerprint)
    if which.search:
        text = which.search
        tasks = Task.objects.filter(job__name__icontains=text)  # one subquery instead of a join per row
        rows = rows.filter(Q(error__icontains=text) | Q(task__in=tasks))
    if which.before:
        rows = rows.filter(finished_at__lt=which.before)
    return rows.order_by("-finished_at", "id")


def group_by_error(which: DeadLetterFilter = DeadLetterFilter()) -> list[Group]:  # noqa: B008 - a frozen value
    """Groups of dead letters, the most frequent error first."""
    keys = find_dead_letters(which).order_by().values("fingerprint", "occurrence__job__name", "task__name")
    # A row of an older release has no fingerprint: it is grouped by the text of its error.
    by_text = keys.filter(fingerprint="").values(
        "fingerprint", "occurrence__job__name", "task__name", "error"
    )
    rows: list[dict[str, Any]] = [*_counts(keys.exclude(fingerprint="")), *_counts(by_text)]
    groups = [
        Group(
            row["fingerprint"],
            row["occurrence__job__name"],
            row["task__name"],
            row["count"],
            row["first"],
            row["last"],
            row["text"],
        )
        for row in rows
    ]
    return sorted(groups, key=lambda group: (-group.count, group.job, group.task))


def _counts(rows: Any) -> Any:
    facts = {"count": Count("pk"), "first": Min("finished_at"), "last": Max("finished_at")}
    return rows.annotate(text=Max("error"), **facts)


def replay_dead(
    which: DeadLetterFilter,
    *,
    requester: Requester,
    now: datetime,
    record: Record = unrecorded,
    progress: Progress = lambda _count: None,
) -> Resolved:
    """Run each again as a new, linked occurrence of its one task, with a new idempotency key."""
    created: list[UUID] = []
    for batch in _batches(which):
        with transaction.atomic():
            rows = _replay_runs(_lock_replayable(batch), requester, now)
            record(len(rows))
        created += rows
        progress(len(batch))
    return Resolved(len(created), tuple(created))


def _replay_runs(runs: Collection[TaskRun], requester: Requester, now: datetime) -> list[UUID]:
    parents = Occurrence.objects.select_related("job").in_bulk({run.occurrence_id for run in runs})
    rows = [
        new_replay(parents[run.occurrence_id], [run.task_id], requester, now, uuid5(run.id, "replay"))
        for run in runs
    ]
    create_missing(rows)
    line_up([row.job_id for row in rows], now=now)
    transitions.resolve([run.id for run in runs], Resolution.REPLAYED, now=now)
    return [row.id for row in rows]


def purge_dead(
    which: DeadLetterFilter,
    *,
    now: datetime,
    record: Record = unrecorded,
    progress: Progress = lambda _count: None,
) -> Resolved:
    """Mark them as resolved. The rows stay in the ledger, in state dlq."""
    count = 0
    for batch in _batches(which):
        with transaction.atomic():
            purged = transitions.resolve(batch, Resolution.PURGED, now=now)
            record(purged)
        count += purged
        progress(len(batch))
    return Resolved(count)


def _batches(which: DeadLetterFilter) -> Iterator[list[UUID]]:
    """Pages of ids, up to the newest dead letter at the start: later ones are not part of the request."""
    ids = find_dead_letters(which).order_by("id").values_list("id", flat=True)
    newest = TaskRun.objects.dead().aggregate(at=Max("finished_at"))["at"]
    page: Collection[UUID] = list(ids.filter(finished_at__lte=newest)[:BATCH]) if newest else []
    while page:
        batch = list(page)
        yield batch
        page = list(ids.filter(finished_at__lte=newest, id__gt=batch[-1])[:BATCH])


def _lock_replayable(ids: Collection[UUID]) -> list[TaskRun]:
    """Lock those that are unresolved and can be replayed; rows locked by another request are left to it."""
    rows = TaskRun.objects.dead().filter(id__in=ids, occurrence__job__removed_at=None, task__retired_at=None)
    return list(rows.order_by("id").select_for_update(of=("self",), skip_locked=True, no_key=True))
