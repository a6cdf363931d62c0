"""Durations of calls → each task's pace, kept in memory and written now and then.

A process knows the last calls it made. It writes a task's pace when it has seen enough of them, when
the verdict changes, and otherwise every few seconds: one statement for all tasks of a message at most,
and none for most messages. Of several processes the last one to write is right, for all are recent.
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

from execution.models import Pace
from occurrences.arrays import Ids, IdText

SHORT = 0.02  # seconds; longer ones gain nothing from sharing a message
WINDOW = 50  # calls
ENOUGH = 10  # calls before anything is said about a task
EVERY = 5.0  # seconds between two writings of the same verdict


class Paces:
    """What one process has seen."""

    def __init__(self, stopwatch: Callable[[], float] = time.monotonic) -> None:
        self._stopwatch = stopwatch
        self.forget()

    def forget(self) -> None:
        self._calls: dict[UUID, deque[float]] = {}
        self._written: dict[UUID, tuple[float, bool]] = {}

    def note(self, task: UUID, seconds: float) -> None:
        self._calls.setdefault(task, deque(maxlen=WINDOW)).append(seconds)

    def due(self, tasks: Collection[UUID]) -> dict[UUID, tuple[float, int]]:
        """Tasks whose pace should be written now, with their p95 and the calls it comes from."""
        known = {task: self._calls[task] for task in tasks if len(self._calls.get(task, ())) >= ENOUGH}
        return {task: (p95(calls), len(calls)) for task, calls in known.items() if self._is_due(task, calls)}

    def write(self, tasks: Collection[UUID], *, now: datetime) -> int:
        rows = [
            Pace(task_id=task, p95=seconds, samples=samples, measured_at=now)
            for task, (seconds, samples) in sorted(self.due(tasks).items())
        ]
        if rows:
            # A task that was deleted meanwhile needs no pace.
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
        return self._stopwatch() - at >= EVERY or (p95(calls) <= SHORT) is not short


def p95(calls: Collection[float]) -> float:
    """The nearest rank: of 50 calls the third longest."""
    return sorted(calls)[ceil(0.95 * len(calls)) - 1]


def proven_short(tasks: Collection[UUID] | Collection[str]) -> Mapping[str, float]:
    """Seconds a call takes, of those tasks that are known to be short."""
    known = Pace.objects.within(SHORT).filter(task__any=Ids(tasks))
    return dict(known.values_list(IdText("task_id"), "p95"))


paces = Paces()
os.register_at_fork(after_in_child=paces.forget)
