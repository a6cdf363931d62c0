"""Delete occurrences older than their job's retention, a batch per transaction, after counting them (REC-6).

Beats prune in every sweep (`prune_step`). Together they walk through all jobs in the order of their ids, and
through the old rows of each; the position is one row, `PruneRound`, and the beat that locks it continues. A
step looks at a bounded number of jobs and rows with a constant number of statements, so it does not delay a
tick. A round starts a minute after the previous one started; until then a sweep reads one row.

Operators prune the jobs they choose at once (`prune_jobs`).

Counting and deleting share a transaction, so that no counter decreases. Any number of processes may prune:
they lock the job's row in `Pruned` before they lock any occurrence, to avoid deadlocks, and only the holder
deletes and adds to the job's tallies. A pruned instant is not planned again: the job's cursor has passed it.
"""

from collections import Counter as Sums
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Sum

from punctual.execution.models import HookCall
from punctual.jobs.config.cascade import platform
from punctual.jobs.events import Event, emit
from punctual.jobs.models import Job
from punctual.occurrences.engines.contract import FIRST_ID, FIRST_INSTANT, Cutoff
from punctual.occurrences.models import Attempt, Cause, IdempotencyKey, Occurrence, TaskRun
from punctual.recovery.models import Counter, Pruned, PruneRound, Tally
from punctual.recovery.requester import Record, unrecorded
from punctual.recovery.retention import (
    OldRow,
    cutoff_of,
    oldest_rows,
    with_dead_letters,
)

ROUND_INTERVAL = timedelta(minutes=1)
MAX_JOBS_PER_STEP, MAX_ROWS_PER_STEP = 500, 250
MAX_KEYS_PER_STEP = 1000
BATCH = 1000
ROUND_ID = 1
Key = tuple[UUID, str, str, str]  # job, counter, task, label
Progress = Callable[[int], object]


# -- beats ----------------------------------------------------------------------------------------------


def prune_step(now: datetime, *, jobs: int = MAX_JOBS_PER_STEP, rows: int = MAX_ROWS_PER_STEP) -> int:
    """Continue the round of all beats by one step and return how many occurrences were deleted."""
    due = PruneRound.objects.filter(pk=ROUND_ID).values_list("due_at", flat=True).first()
    if due is None:
        first = PruneRound(pk=ROUND_ID, due_at=now, began_at=now)
        PruneRound.objects.bulk_create([first], ignore_conflicts=True)
    elif due > now:
        return 0
    with transaction.atomic():
        due_rounds = PruneRound.objects.filter(pk=ROUND_ID, due_at__lte=now)
        position = due_rounds.select_for_update(skip_locked=True).first()
        deleted = {} if position is None else _step(position, now, jobs, rows)
    count = sum(deleted.values())
    if count:
        emit(Event.OCCURRENCES_PRUNED, jobs=len(deleted), occurrences=count)
    return count


def _step(position: PruneRound, now: datetime, max_jobs: int, max_rows: int) -> dict[UUID, int]:
    page, next_job = _page(position, max_jobs)
    jobs = _page_cutoffs(page, position, now)
    rows = oldest_rows(jobs, max_rows)
    deleted = _delete_old(jobs, rows, wait=False)
    more_keys = _delete_expired_keys(now) == MAX_KEYS_PER_STEP
    if len(rows) == max_rows:
        _save_position(position, now, rows[-1].job_id, rows[-1])
    else:
        _save_position(position, now, next_job, more=more_keys)
    return deleted


def _page(position: PruneRound, limit: int) -> tuple[list[Job], UUID | None]:
    """The jobs this step may look at, and the id of the job the next step starts with."""
    jobs = Job.objects.order_by("id").only("id", "name", "config", "schedule")
    page = list((jobs.filter(id__gte=position.job) if position.job else jobs)[: limit + 1])
    return page[:limit], page[limit].id if len(page) > limit else None


def _page_cutoffs(page: Sequence[Job], position: PruneRound, now: datetime) -> list[Cutoff]:
    platform_default = "retention" in platform()
    cutoffs = []
    for job in page:
        # Most jobs do not set a retention; their configuration need not be parsed.
        configured = platform_default or (isinstance(job.config, dict) and "retention" in job.config)
        cutoff = cutoff_of(job, now) if configured else None
        if cutoff is not None and job.id == position.job:
            since, after = position.at or FIRST_INSTANT, position.row or FIRST_ID
            cutoffs.append(Cutoff(job.id, cutoff, since=since, after=after))
        elif cutoff is not None:
            cutoffs.append(Cutoff(job.id, cutoff))
    return cutoffs


def _delete_expired_keys(now: datetime) -> int:
    """Delete idempotency keys that have expired; their occurrences may have been pruned long before."""
    expired = IdempotencyKey.objects.filter(expires_at__lte=now).order_by("expires_at")
    # A beat does not wait for a trigger that replaces its expired key.
    ids = list(expired.select_for_update(skip_locked=True).values_list("pk", flat=True)[:MAX_KEYS_PER_STEP])
    if ids:
        rows = IdempotencyKey.objects.filter(pk__in=ids)
        rows._raw_delete(rows.db)  # noqa: SLF001 - nothing refers to these
    return len(ids)


def _save_position(
    position: PruneRound,
    now: datetime,
    job: UUID | None,
    row: OldRow | None = None,
    *,
    more: bool = False,
) -> None:
    """Continue in the next sweep, or start the next round once every job has been looked at."""
    position.job, position.at, position.row = job, row and row.scheduled_for, row and row.id
    position.due_at = now if job or more else max(position.began_at + ROUND_INTERVAL, now)
    if job is None:
        position.began_at = position.due_at
    position.save()


# -- operators ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PruneResult:
    """How many occurrences were deleted; `more` when the limit was reached first."""

    pruned: int
    more: bool = False


def prune_jobs(
    jobs: Sequence[Cutoff],
    *,
    record: Record = unrecorded,
    limit: int | None = None,
    progress: Progress = lambda _count: None,
) -> PruneResult:
    """Prune several jobs, sorted by id, up to `limit` occurrences."""
    total = 0
    while limit is None or total < limit:
        size = BATCH if limit is None else min(BATCH, limit - total)
        rows = oldest_rows(jobs, size)
        with transaction.atomic():
            count = sum(_delete_old(jobs, rows, wait=True).values())
            record(count)
        total += count
        progress(count)
        if len(rows) < size:
            return PruneResult(total)
        jobs = _after(jobs, rows[-1])
    return PruneResult(total, more=bool(oldest_rows(jobs, 1)))


def _after(jobs: Sequence[Cutoff], row: OldRow) -> list[Cutoff]:
    """What is left of the jobs after that row."""
    rest = [job for job in jobs if job.job_id >= row.job_id]
    return [
        job._replace(since=row.scheduled_for, after=row.id) if job.job_id == row.job_id else job
        for job in rest
    ]


# -- deletion -------------------------------------------------------------------------------------------


def _delete_old(jobs: Iterable[Cutoff], rows: Sequence[OldRow], *, wait: bool) -> dict[UUID, int]:
    """Delete those of the rows that may go, and return how many by job. Call in a transaction.

    `wait`: whether to wait for jobs that another process prunes, or to leave them out.
    """
    cutoffs = {job.job_id: job.cutoff for job in jobs}
    expired = [row for row in rows if row.is_expired(cutoffs[row.job_id])]
    if not expired:
        return {}
    locked_jobs = _lock_jobs({row.job_id for row in expired}, wait=wait)
    locked = _lock_occurrences([row.id for row in expired if row.job_id in locked_jobs], wait=wait)
    ids = locked - with_dead_letters(locked)
    deletable = [row for row in expired if row.id in ids]
    if deletable:
        _add_to_tallies(_count(ids))
        _advance(locked_jobs, deletable)
        _delete(ids)
    return dict(Sums(row.job_id for row in deletable))


def _lock_jobs(jobs: Collection[UUID], *, wait: bool) -> dict[UUID, Pruned]:
    """Lock the `Pruned` rows of the jobs, creating missing ones first."""
    rows = Pruned.objects.filter(job__any=jobs).order_by("job_id")
    missing = set(jobs) - set(rows.values_list("job_id", flat=True))
    if missing:
        created = Job.objects.filter(id__any=missing).order_by("id").values_list("id", "created_at")
        first = [Pruned(job_id=job, until=at) for job, at in created]
        Pruned.objects.bulk_create(first, ignore_conflicts=True)
    return {row.job_id: row for row in rows.select_for_update(skip_locked=not wait)}


def _lock_occurrences(ids: Collection[UUID], *, wait: bool) -> set[UUID]:
    """Lock the rows that still exist: the previous holder of the job may have deleted some.

    Locked before looking for rows that refer to them: see `lock_parents` in `punctual.occurrences.engines`.
    """
    rows = Occurrence.objects.filter(id__any=ids).order_by("id").select_for_update(skip_locked=not wait)
    return set(rows.values_list("id", flat=True))


def _count(ids: Collection[UUID]) -> Sums[Key]:
    occurrences = Occurrence.objects.filter(id__any=ids).order_by()
    recovered = occurrences.filter(cause=Cause.RECOVERY)
    attempts = Attempt.objects.filter(run__occurrence__any=ids).order_by()
    sums: Sums[Key] = Sums()
    _add(sums, Counter.OCCURRENCES, occurrences.values_list("job_id", "state").annotate(Sum("instants")))
    _add(sums, Counter.RECOVERIES, recovered.values_list("job_id", "config__recovery").annotate(Count("pk")))
    of_tasks = attempts.values_list("run__occurrence__job_id", "run__task__name", "state")
    _add(sums, Counter.ATTEMPTS, of_tasks.annotate(Count("pk")))
    return sums


def _add(sums: Sums[Key], counter: Counter, rows: Iterable[Any]) -> None:
    for job, *names, count in rows:
        task = names[0] if len(names) > 1 else ""
        sums[job, counter, task, names[-1] or "unknown"] += count


def _add_to_tallies(sums: Sums[Key]) -> None:
    """Keep one tally per key, however often a job is pruned: each scrape of the metrics sums all of them."""
    jobs = {job for job, *_ in sums}
    tallies = list(Tally.objects.filter(counter__in=Counter.values, job__any=jobs))
    for tally in tallies:
        sums[tally.job_id, tally.counter, tally.task, tally.label] += tally.count
    Tally.objects.filter(pk__in=[tally.pk for tally in tallies]).delete()
    Tally.objects.bulk_create(
        Tally(job_id=job, counter=counter, task=task, label=label, count=count)
        for (job, counter, task, label), count in sorted(sums.items())
    )


def _advance(locked_jobs: Mapping[UUID, Pruned], rows: Iterable[OldRow]) -> None:
    """Record how far each job is pruned; never move back."""
    last: dict[UUID, datetime] = {}
    for row in rows:
        last[row.job_id] = max(row.last_instant, last.get(row.job_id, row.last_instant))
    advanced = [locked_jobs[job] for job, until in last.items() if locked_jobs[job].until < until]
    for pruned in advanced:
        pruned.until = last[pruned.job_id]
    Pruned.objects.bulk_update(advanced, ["until"])


def _delete(ids: Collection[UUID]) -> None:
    """Delete dependent rows first, without loading any. Replays keep running; their `parent` becomes NULL."""
    for rows in (
        Attempt.objects.filter(run__occurrence__any=ids),
        TaskRun.objects.filter(occurrence__any=ids),
        HookCall.objects.filter(occurrence__any=ids),
    ):
        rows._raw_delete(rows.db)  # noqa: SLF001 - Django's own fast path; nothing refers to these
    Occurrence.objects.filter(parent__any=ids).update(parent=None)
    occurrences = Occurrence.objects.filter(id__any=ids)
    occurrences._raw_delete(occurrences.db)  # noqa: SLF001
