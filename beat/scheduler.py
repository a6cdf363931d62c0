"""Celery's beat loop → our tick, beside django-celery-beat's entries: `celery -A scheduler_project beat`.

The constructor must not touch the database: Celery builds a lazy instance for the banner.
"""

import gc
import os
import socket
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from django.db import DatabaseError, InterfaceError, close_old_connections, connection
from django_celery_beat.schedulers import DatabaseScheduler

from beat import heartbeat, periodic, signals, tick
from beat.session import Session
from beat.wakeup import Wakeup
from execution.dispatch import BROKER_ERRORS
from jobs.clock import database_now
from jobs.errors import PunctualError
from jobs.events import Event, emit
from jobs.sync import sync
from recovery import sweep

TROUBLE = (DatabaseError, InterfaceError, *BROKER_ERRORS)
AFTER_TROUBLE = 1.0  # seconds: an outage is asked about once a second, not in a busy loop


class Scheduler(DatabaseScheduler):  # type: ignore[misc]  # django-celery-beat has no types
    _last_timestamp: datetime | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._lost_races: set[str] = set()
        self._swept_at = 0.0
        self._session = Session()
        self._wakeup = Wakeup()
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        try:
            now = database_now()
            synced = sync(now)
            heartbeat.sign_in(self.name, now)
            super().setup_schedule()
            # What is loaded by now stays. A collection that looks through all of it stops a tick for 150 ms.
            gc.collect()
            gc.freeze()
        except (DatabaseError, InterfaceError, PunctualError) as error:
            host = connection.settings_dict["HOST"] or connection.vendor
            line = " ".join(str(error).split())
            raise SystemExit(f"error: beat cannot start on database {host}: {line}") from None
        counts = {key: len(names) for key, names in vars(synced).items()}
        emit(Event.JOBS_SYNCED, beat=self.name, **counts)

    def install_default_entries(self, data: Any) -> None:
        # Celery's clean-up of results is for backends that do not expire keys themselves.
        if not self.app.backend.supports_autoexpire:
            super().install_default_entries(data)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """A turn, then the wait for the next: Celery's own sleep would not hear a call."""
        if (delay := self.turn(*args, **kwargs)) > 0:
            self._wakeup.wait(delay)
        return 0.0

    def turn(self, *args: Any, **kwargs: Any) -> float:
        """One turn of the clock; the seconds until the next is needed."""
        with signals.deferred():
            # Each on its own: a broker that takes no periodic task must not keep occurrences from being made.
            periodic_delay = self._untroubled(partial(super().tick, *args, **kwargs))
            return min(periodic_delay, self._untroubled(self._tick))

    def _untroubled(self, step: Callable[[], float]) -> float:
        try:
            return step()
        except TROUBLE as error:
            line = " ".join(str(error).split())[:300]
            emit(Event.BEAT_TROUBLED, beat=self.name, error=type(error).__name__, detail=line)
            close_old_connections()
            self._heap = None  # upstream has taken the entry off it
            return AFTER_TROUBLE

    def _ensure_connected(self) -> Any:
        # Upstream waits for the broker, for most of an hour, and ticks no more.
        return self.connection.ensure_connection(max_retries=1, interval_start=0)

    def schedule_changed(self) -> bool:
        # Upstream's own swallows an error of the database, with a traceback of a hundred lines each time,
        # and takes no notice of the first change there ever was.
        close_old_connections()
        before, after = self._last_timestamp, self.Changes.last_change()
        self._last_timestamp = after
        return bool(before != after)

    def _tick(self) -> float:
        self._session.bound_silence()
        started = database_now()
        sweeping = self._sweep_due()
        ticked = tick.run_once(started, sweeping=sweeping, rounds=tick.ROUNDS, clock=database_now)
        now = database_now()
        heartbeat.tick_done(self.name, started=started, now=now)
        if not ticked.quiet:
            emit(Event.BEAT_TICKED, beat=self.name, **vars(ticked))
        if ticked.more:
            return 0.0
        wait = tick.sleep_for(started)
        if ticked.contended or (ticked.quiet and not wait):
            # What is due is in other hands. Looking again at once, and again, would be a busy loop.
            return tick.AFTER_CONTENTION.total_seconds()
        return max((started + wait - now).total_seconds(), 0.0)

    def _sweep_due(self) -> bool:
        if time.monotonic() - self._swept_at < sweep.INTERVAL.total_seconds():
            return False
        self._swept_at = time.monotonic()
        return True

    def reserve(self, entry: Any) -> Any:
        _ = self.producer  # raises while the broker is down: what cannot be sent is not reserved
        next_entry = super().reserve(entry)
        # The row is written here and now; the later write-back would overwrite what users edit.
        self._dirty.discard(next_entry.name)
        if not periodic.reserved(entry, next_entry):
            periodic.refreshed(next_entry)
            self._lost_races.add(entry.name)
        return next_entry

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        if entry.name in self._lost_races:
            self._lost_races.discard(entry.name)
            return
        super().apply_entry(entry, producer=producer)

    def close(self) -> None:
        self._wakeup.close()
        try:
            heartbeat.sign_out(self.name)
        except TROUBLE:
            connection.close()
        super().close()
