"""Measure how long the calls of each task take, and store the 95th percentile for dispatch.

A worker process keeps its last calls in memory. It writes a task's pace when it has seen enough calls, when
the task becomes short or stops being short, and otherwise every few seconds: at most one statement per
message, and none for most messages. If several processes write, the last one wins; all of them are recent.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime
from math import ceil
from uuid import UUID

from django.db import IntegrityError, transaction

from punctual.execution.models import Pace
from punctual.occurrences.database.arrays import Ids, IdText

SHORT = 0.02  # seconds; a longer call gains nothing from sharing a message
WINDOW = 50  # calls kept per task
MIN_CALLS = 10  # before a pace is written
WRITE_INTERVAL = 5.0  # seconds between two writes, unless the task becomes short or stops being short


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
        known = {task: self._calls[task] for task in tasks if len(self._calls.get(task, ())) >= MIN_CALLS}
        return {task: (p95(calls), len(calls)) for task, calls in known.items() if self._is_due(task, calls)}

    def write(self, tasks: Collection[UUID], *, now: datetime) -> int:
        rows = [
            Pace(task_id=task, p95=seconds, samples=samples, measured_at=now)
            for task, (seconds, samples) in sorted(self.due(tasks).items())
        ]
        if rows:
            # The task may have been deleted meanwhile.
            with suppress(IntegrityError), transaction.atomic():
                Pace.objects.bulk_create(
                    rows,
                    update_conflicts=True,
                    unique_fields=["task"],
                    update_fields=["p95", "samples", "measured_at"],
                )
            self._written |= {row.task_id: (self._stopwatch(), row.p95 <= SHORT) for row in rows}
        return len(rows)

    def _is_due(self, task: UUID, calls: Collection[float]) -> bool:
        if task not in self._written:
            return True
        at, short = self._written[task]
        return self._stopwatch() - at >= WRITE_INTERVAL or (p95(calls) <= SHORT) is not short


def p95(calls: Collection[float]) -> float:
    """The nearest rank: of 50 calls the third longest."""
    return sorted(calls)[ceil(0.95 * len(calls)) - 1]


def short_tasks(tasks: Collection[UUID] | Collection[str]) -> Mapping[str, float]:
    """Those of the tasks that are known to be short, with their seconds per call."""
    known = Pace.objects.within(SHORT).filter(task__any=Ids(tasks))
    return dict(known.values_list(IdText("task_id"), "p95"))


paces = Paces()
os.register_at_fork(after_in_child=paces.forget)
