"""Send django-celery-beat's PeriodicTasks once with several beats (OCC-10).

Upstream keeps the time of the last run in memory and writes it back later, so two beats would send everything
twice. Here each run is first reserved in the row by one guarded UPDATE; the row count says which beat sends.
"""

from datetime import datetime
from typing import Any

from django.db import close_old_connections
from django.db.models import F, Q
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler


class PeriodicTaskScheduler(DatabaseScheduler):  # type: ignore[misc]  # django-celery-beat has no types
    _last_timestamp: datetime | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._lost_races: set[str] = set()
        super().__init__(*args, **kwargs)

    def install_default_entries(self, data: Any) -> None:
        # Celery's clean-up of results is for result backends that do not expire keys themselves.
        if not self.app.backend.supports_autoexpire:
            super().install_default_entries(data)

    def reset_heap(self) -> None:
        """Rebuild the heap at the next tick: upstream removes an entry from it before the entry is sent."""
        self._heap = None

    def reserve(self, entry: Any) -> Any:
        _ = self.producer  # raises while the broker is down: a run that cannot be sent is not reserved
        next_entry = super().reserve(entry)
        # `reserve_run` writes the row now; upstream's later write-back would overwrite what users edit.
        self._dirty.discard(next_entry.name)
        if not reserve_run(entry, next_entry):
            refresh_entry(next_entry)
            self._lost_races.add(entry.name)
        return next_entry

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        if entry.name in self._lost_races:
            self._lost_races.discard(entry.name)
            return
        super().apply_entry(entry, producer=producer)

    def schedule_changed(self) -> bool:
        # Upstream's method logs a long traceback for every database error and ignores the first change ever.
        close_old_connections()
        before, after = self._last_timestamp, self.Changes.last_change()
        self._last_timestamp = after
        return bool(before != after)

    def _ensure_connected(self) -> Any:
        # Upstream would block the beat for most of an hour while the broker is down.
        return self.connection.ensure_connection(max_retries=1, interval_start=0)


def reserve_run(entry: Any, next_entry: Any) -> bool:
    """Write the run of `next_entry` to the row; False when another beat has already sent it.

    `entry.last_run_at` is the last run as this beat knew it when it found the entry due.
    """
    unreserved = Q(last_run_at=None) | Q(last_run_at__lte=entry.last_run_at)
    rows = PeriodicTask.objects.filter(unreserved, pk=entry.model.pk, enabled=True)
    run = {"last_run_at": next_entry.model.last_run_at, "total_run_count": F("total_run_count") + 1}
    changed: int = rows.update(**run)
    return changed == 1


def refresh_entry(next_entry: Any) -> None:
    """Read what the other beat wrote, so that the next due time is counted from there."""
    facts = PeriodicTask.objects.filter(pk=next_entry.model.pk)
    for last_run_at, total in facts.values_list("last_run_at", "total_run_count"):
        if last_run_at is not None:
            next_entry.last_run_at = next_entry.model.last_run_at = last_run_at
        next_entry.total_run_count = next_entry.model.total_run_count = total
