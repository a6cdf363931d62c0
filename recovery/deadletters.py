"""Dead letters: found, grouped by error, replayed as new occurrences of that one task, or purged (TSK-6).

A dead letter is dealt with once: its resolution is written by a guarded update in the transaction that
makes the new occurrence. Any number are handled in batches, each with the same few statements.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from django.db import transaction
from django.db.models import Count, Max, Min, Q

from jobs.models import Task
from occurrences import transitions
from occurrences.materialize import create_missing
from occurrences.models import Occurrence, Resolution, TaskRun, TaskRunQuerySet
from recovery.audit import Asked, audited
from recovery.models import Action
from recovery.replay import again

BATCH = 500
Progress = Callable[[int], object]


@dataclass(frozen=True)
class Wanted:
    """Which dead letters; what is not said does not matter."""

    ids: tuple[UUID, ...] = ()
    job: str = ""
    task: str = ""
    fingerprint: str = ""
    search: str = ""
    before: datetime | None = None

    def told(self) -> dict[str, Any]:
        """For the audit: what was asked for, as JSON."""
        given = {name: value for name, value in asdict(self).items() if value}
        if not given:
            return {"dead_letters": "all"}
        return {
            name: [str(id_) for id_ in value] if name == "ids" else str(value)
            for name, value in given.items()
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
class Dealt:
    count: int = 0
    made: tuple[UUID, ...] = ()


def dead(wanted: Wanted) -> TaskRunQuerySet:
    """Newest first."""
    rows = TaskRun.objects.dead()
    if wanted.ids:
        rows = rows.filter(id__in=wanted.ids)
    if wanted.job:
        rows = rows.filter(task__job__name=wanted.job)  # by its task: there are far fewer than occurrences
    if wanted.task:
        rows = rows.filter(task__name=wanted.task)
    if wanted.fingerprint:
        rows = rows.filter(fingerprint=wanted.fingerprint)
    if wanted.search:
        text = wanted.search
        tasks = Task.objects.filter(job__name__icontains=text)  # looked up once, and not joined to each row
        rows = rows.filter(Q(error__icontains=text) | Q(task__in=tasks))
    if wanted.before:
        rows = rows.filter(finished_at__lt=wanted.before)
    return rows.order_by("-finished_at", "id")


def grouped(wanted: Wanted = Wanted()) -> list[Group]:  # noqa: B008 - a frozen value
    """The commonest error first."""
    keys = dead(wanted).order_by().values("fingerprint", "occurrence__job__name", "task__name")
    # Without a fingerprint (a row of an older release) the error's own text tells one from another.
    bare = keys.filter(fingerprint="").values("fingerprint", "occurrence__job__name", "task__name", "error")
    found: list[dict[str, Any]] = [*_counted(keys.exclude(fingerprint="")), *_counted(bare)]
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
        for row in found
    ]
    return sorted(groups, key=lambda group: (-group.count, group.job, group.task))


def _counted(rows: Any) -> Any:
    facts = {"count": Count("pk"), "first": Min("finished_at"), "last": Max("finished_at")}
    return rows.annotate(text=Max("error"), **facts)


def replay_dead(
    wanted: Wanted, *, asked: Asked, now: datetime, progress: Progress = lambda _count: None
) -> Dealt:
    """Each runs again as a new, linked occurrence of its one task, with a fresh idempotency key."""
    made: list[UUID] = []
    with audited(Action.DLQ_REPLAY, asked, now=now, details=wanted.told()) as entry:
        for batch in _held_batches(wanted):
            with transaction.atomic():
                rows = _repeated(_locked(batch), asked, now)
                entry.add(len(rows))
            made += rows
            progress(len(batch))
    return Dealt(len(made), tuple(made))


def _repeated(runs: Collection[TaskRun], asked: Asked, now: datetime) -> list[UUID]:
    parents = Occurrence.objects.select_related("job").in_bulk({run.occurrence_id for run in runs})
    rows = [
        again(parents[run.occurrence_id], [run.task_id], asked, now, uuid5(run.id, "replay")) for run in runs
    ]
    create_missing(rows)
    transitions.resolve([run.id for run in runs], Resolution.REPLAYED, now=now)
    return [row.id for row in rows]


def purge_dead(
    wanted: Wanted, *, asked: Asked, now: datetime, progress: Progress = lambda _count: None
) -> Dealt:
    """They stay in the ledger as what they are, and count as dealt with."""
    with audited(Action.DLQ_PURGE, asked, now=now, details=wanted.told()) as entry:
        for batch in _held_batches(wanted):
            with transaction.atomic():
                entry.add(transitions.resolve(batch, Resolution.PURGED, now=now))
            progress(len(batch))
    return Dealt(entry.count)


def _held_batches(wanted: Wanted) -> Iterator[list[UUID]]:
    """What was dead when it was asked for, in pages by key: what dies meanwhile is not part of it."""
    ids = dead(wanted).order_by("id").values_list("id", flat=True)
    newest = TaskRun.objects.dead().aggregate(at=Max("finished_at"))["at"]
    page: Collection[UUID] = list(ids.filter(finished_at__lte=newest)[:BATCH]) if newest else []
    while page:
        batch = list(page)
        yield batch
        page = list(ids.filter(finished_at__lte=newest, id__gt=batch[-1])[:BATCH])


def _locked(ids: Collection[UUID]) -> list[TaskRun]:
    """Still dead, and replayable; another request that has them at this moment keeps them."""
    rows = TaskRun.objects.dead().filter(id__in=ids, occurrence__job__removed_at=None, task__retired_at=None)
    return list(rows.order_by("id").select_for_update(of=("self",), skip_locked=True, no_key=True))
