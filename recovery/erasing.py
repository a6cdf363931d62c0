"""Old rows → those that may go are deleted, counted first; one transaction, so that no counter falls (REC-6).

Any number of processes may try: a job's row in `Pruned` is held by one of them at a time, which also keeps
them from waiting for each other in a circle. Its tallies are therefore added to in place.
"""

from collections import Counter as Sums
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Sum

from occurrences.models import Attempt, Cause, IdempotencyKey, Occurrence, TaskRun
from recovery.holding import held
from recovery.models import Counter, Pruned, Tally
from recovery.oldest import Old

Key = tuple[UUID, str, str, str]  # job, counter, task, label


def dead_letters_of(ids: Iterable[UUID]) -> set[UUID]:
    """Those of them that stay: nobody has dealt with their dead letters."""
    dead = TaskRun.objects.dead().filter(occurrence__any=list(ids)).order_by()
    return set(dead.values_list("occurrence_id", flat=True))


def erase(rows: Sequence[Old], *, waits: bool) -> dict[UUID, int]:
    """How many went, by job. Call in a transaction; `waits`: for a job that another process prunes."""
    if not rows:
        return {}
    holding = held({row.job_id for row in rows}, waits=waits)
    wanted = _locked([row.id for row in rows if row.job_id in holding], waits=waits)
    ids = wanted - dead_letters_of(wanted)
    gone = [row for row in rows if row.id in ids]
    if gone:
        _add(_counted(ids))
        _remember(holding, gone)
        _delete(ids)
    return dict(Sums(row.job_id for row in gone))


def _locked(ids: Collection[UUID], *, waits: bool) -> set[UUID]:
    """Those still there: whoever held the job before may have deleted some of them since they were read.

    Locked before anybody looks for what refers to them: see `occurrences.keeping`.
    """
    rows = Occurrence.objects.filter(id__any=ids).order_by("id").select_for_update(skip_locked=not waits)
    return set(rows.values_list("id", flat=True))


def _counted(ids: Collection[UUID]) -> Sums[Key]:
    gone = Occurrence.objects.filter(id__any=ids).order_by()
    recovered = gone.filter(cause=Cause.RECOVERY)
    attempts = Attempt.objects.filter(run__occurrence__any=ids).order_by()
    sums: Sums[Key] = Sums()
    _sum(sums, Counter.OCCURRENCES, gone.values_list("job_id", "state").annotate(Sum("instants")))
    _sum(sums, Counter.RECOVERIES, recovered.values_list("job_id", "config__recovery").annotate(Count("pk")))
    of_tasks = attempts.values_list("run__occurrence__job_id", "run__task__name", "state")
    _sum(sums, Counter.ATTEMPTS, of_tasks.annotate(Count("pk")))
    return sums


def _sum(sums: Sums[Key], counter: Counter, rows: Iterable[Any]) -> None:
    for job, *names, count in rows:
        task = names[0] if len(names) > 1 else ""
        sums[job, counter, task, names[-1] or "unknown"] += count


def _add(sums: Sums[Key]) -> None:
    """One row for each, however often a job is pruned: whoever scrapes adds all of them up."""
    jobs = {job for job, *_ in sums}
    known = Tally.objects.filter(counter__in=Counter.values, job__any=jobs)
    rows = list(known)
    for row in rows:
        sums[row.job_id, row.counter, row.task, row.label] += row.count
    Tally.objects.filter(pk__in=[row.pk for row in rows]).delete()
    Tally.objects.bulk_create(
        Tally(job_id=job, counter=counter, task=task, label=label, count=count)
        for (job, counter, task, label), count in sorted(sums.items())
    )


def _remember(holding: Mapping[UUID, Pruned], gone: Iterable[Old]) -> None:
    """Only ever forward."""
    reached: dict[UUID, datetime] = {}
    for row in gone:
        reached[row.job_id] = max(row.reached, reached.get(row.job_id, row.reached))
    moved = [holding[job] for job, until in reached.items() if holding[job].until < until]
    for row_ in moved:
        row_.until = reached[row_.job_id]
    Pruned.objects.bulk_update(moved, ["until"])


def _delete(ids: Collection[UUID]) -> None:
    """Children first, without loading a row. What repeated one of them loses its link, not its life."""
    for rows in (
        Attempt.objects.filter(run__occurrence__any=ids),
        TaskRun.objects.filter(occurrence__any=ids),
        IdempotencyKey.objects.filter(occurrence__any=ids),
    ):
        rows._raw_delete(rows.db)  # noqa: SLF001 - Django's own fast path; nothing refers to these
    Occurrence.objects.filter(parent__any=ids).update(parent=None)
    gone = Occurrence.objects.filter(id__any=ids)
    gone._raw_delete(gone.db)  # noqa: SLF001
