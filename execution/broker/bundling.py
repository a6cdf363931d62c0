"""Decide which released runs share a message, by the measured duration of their tasks.

Runs are spread over all worker slots. A message carries no more than fits its time budget, and only runs with
the same queue and the same timeout.

A worker process keeps the durations of its last calls in memory. It writes a task's pace, the 95th
percentile, when it has seen enough calls, when the task becomes short or stops being short, and otherwise
every few seconds: at most one statement per message, and none for most messages. If several processes write,
the last one wins; all of them are recent.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from math import ceil, inf
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from punctual.execution.models import Pace
from punctual.jobs.models import Task
from punctual.occurrences.outbox import Ready
from punctual.occurrences.querysets import Ids, IdText

BUDGET = 0.1  # seconds; runs of a message that have not started by then are handed back
FILL = 0.8 * BUDGET  # the rest is for claiming and reporting
MAX_RUNS = 50  # in one message
SHORT = 0.02  # seconds; a longer call gains nothing from sharing a message
WINDOW = 50  # calls kept per task
MIN_CALLS = 10  # before a pace is written
WRITE_INTERVAL = 5.0  # seconds between two writes, unless the task becomes short or stops being short

Bundle = tuple[Ready, ...]


def bundle_runs(runs: Sequence[Ready], paces: Mapping[str, float], *, slots: int) -> list[Bundle]:
    """`paces` holds the seconds per call of tasks known to be short; runs of other tasks travel alone."""
    short = [run for run in runs if run.bundle and run.task_id in paces]
    size = min(MAX_RUNS, ceil(len(short) / max(slots, 1)))
    if size <= 1:
        return [(run,) for run in runs]
    short_ids = {run.run_id for run in short}
    alone = [(run,) for run in runs if run.run_id not in short_ids]
    return [*alone, *_fill_bundles(short, paces, size)]


def _fill_bundles(runs: Iterable[Ready], paces: Mapping[str, float], size: int) -> list[Bundle]:
    """Fill one bundle per queue and timeout, in the order of the runs; a full bundle is closed."""
    open_bundles: dict[tuple[str, str], tuple[list[Ready], float]] = {}
    closed: list[Bundle] = []
    for run in runs:
        kind = run.queue, run.task_timeout
        bundle, seconds = open_bundles.get(kind, ([], 0.0))
        if bundle and (len(bundle) == size or seconds + paces[run.task_id] > FILL):
            closed.append(tuple(bundle))
            bundle, seconds = [], 0.0
        open_bundles[kind] = [*bundle, run], seconds + paces[run.task_id]
    return [*closed, *(tuple(bundle) for bundle, _ in open_bundles.values())]


def short_tasks(tasks: Collection[UUID] | Collection[str]) -> Mapping[str, float]:
    """Those of the tasks that are known to be short, with their seconds per call."""
    known = Pace.objects.within(SHORT).filter(task__any=Ids(tasks))
    return dict(known.values_list(IdText("task_id"), "p95"))


class Paces:
    """The calls that one process has made."""

    def __init__(self, stopwatch: Callable[[], float] = time.monotonic) -> None:
        self._stopwatch = stopwatch
        self.forget()

    def forget(self) -> None:
        self._calls: dict[UUID, deque[float]] = {}
        self._written: dict[UUID, tuple[float, bool]] = {}

    def note(self, task: UUID, seconds: float) -> None:
        self._calls.setdefault(task, deque(maxlen=WINDOW)).append(seconds)

    def due(self, tasks: Collection[UUID]) -> dict[UUID, tuple[float, int]]:
        """Tasks whose pace should be written now, with their p95 and the number of calls behind it."""
        due = {}
        for task in set(tasks):
            calls = self._calls.get(task, ())
            if len(calls) >= MIN_CALLS:
                at, short = self._written.get(task, (-inf, False))
                seconds = p95(calls)
                if self._stopwatch() - at >= WRITE_INTERVAL or (seconds <= SHORT) is not short:
                    due[task] = (seconds, len(calls))
        return due

    def write(self, tasks: Collection[UUID], *, now: datetime) -> int:
        rows = [
            Pace(task_id=task, p95=seconds, samples=samples, measured_at=now)
            for task, (seconds, samples) in sorted(self.due(tasks).items())
        ]
        if rows:
            # The task may have been deleted meanwhile.
            with suppress(IntegrityError), transaction.atomic():
                Pace.objects.bulk_create(
                    _without_held(rows),
                    update_conflicts=True,
                    unique_fields=["task"],
                    update_fields=["p95", "samples", "measured_at"],
                )
            self._written |= {row.task_id: (self._stopwatch(), row.p95 <= SHORT) for row in rows}
        return len(rows)


def _without_held(rows: Sequence[Pace]) -> list[Pace]:
    """Leave out paces of which another session holds the row, or the row of the task: never wait for it."""
    tasks = [row.task_id for row in rows]
    known = Pace.objects.filter(task__in=tasks)
    new = Task.objects.filter(id__in=tasks).exclude(id__in=known.values("task"))
    free = {*_lock_free(known.order_by("task_id")), *_lock_free(new.order_by("id"))}
    return [row for row in rows if row.task_id in free]


def _lock_free(rows: QuerySet[Any]) -> list[UUID]:
    return list(rows.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))


def p95(calls: Collection[float]) -> float:
    """The nearest rank: of 50 calls the third longest."""
    return sorted(calls)[ceil(0.95 * len(calls)) - 1]


paces = Paces()
os.register_at_fork(after_in_child=paces.forget)
