"""The scheduler class of `celery beat`: run our tick and django-celery-beat's entries, then wait.

The constructor must not touch the database: Celery builds a lazy instance for the banner.
"""

import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from types import FrameType
from typing import Any

from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from punctual.beat import tick
from punctual.beat.periodic_tasks.celery_entries import PeriodicTaskScheduler
from punctual.beat.postgres import Session, Wakeup, idle_time
from punctual.execution.broker.errors import BROKER_ERRORS
from punctual.execution.models import Process
from punctual.execution.supervision import presence
from punctual.jobs.clock import database_now
from punctual.jobs.database_errors import unless_locked
from punctual.jobs.declaration.registry import registry
from punctual.jobs.declaration.sync import sync
from punctual.jobs.errors import PunctualError
from punctual.jobs.events import Event, emit
from punctual.recovery.sweeper import sweep

OUTAGE_ERRORS: tuple[type[Exception], ...] = (DatabaseError, InterfaceError, *BROKER_ERRORS)
OUTAGE_RETRY_SECONDS = 1.0
SWEEP_DELAY_AFTER_OUTAGE = 3.0  # seconds
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Scheduler(PeriodicTaskScheduler):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._swept_at = 0.0
        self._careful = False
        self._synced = False
        self._session = Session()
        self._wakeup = Wakeup()
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        registry.discovery.run_or_exit()
        try:
            self._session.configure()
            now = database_now()
            self._sync(now)
            presence.sign_in(self.name, Process.Kind.BEAT, now=now)
            super().setup_schedule()
            # Exempt everything loaded so far: a full garbage collection would delay a tick by 150 ms.
            gc.collect()
            gc.freeze()
        except (DatabaseError, InterfaceError, PunctualError) as error:
            host = connection.settings_dict["HOST"] or connection.display_name
            line = " ".join(str(error).split())
            raise SystemExit(f"error: beat cannot start on database {host}: {line}") from None

    def _sync(self, now: datetime) -> None:
        """Write the jobs declared in code; later, if another session holds the row of one of them."""
        with unless_locked("sync"):
            counts = {key: len(names) for key, names in vars(sync(now)).items()}
            self._synced = True
            emit(Event.JOBS_SYNCED, beat=self.name, **counts)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Take a turn, then wait here: a notification cannot end Celery's own sleep."""
        if (delay := self.turn(*args, **kwargs)) > 0:
            self._wakeup.wait(delay)
        return 0.0

    def turn(self, *args: Any, **kwargs: Any) -> float:
        """Run both schedules once; return the seconds until the next turn is needed."""
        with defer_stop_signals():
            # Separately: a broker that refuses periodic tasks must not keep occurrences from being created.
            periodic_delay = self._survive_outage(partial(super().tick, *args, **kwargs))
            return min(periodic_delay, self._survive_outage(self._tick))

    def _survive_outage(self, step: Callable[[], float]) -> float:
        try:
            return step()
        except OUTAGE_ERRORS as error:
            line = " ".join(str(error).split())[:300]
            emit(Event.BEAT_TICK_FAILED, beat=self.name, error=type(error).__name__, detail=line)
            if isinstance(error, DatabaseError | InterfaceError):
                # Workers that have waited for the database renew their leases first.
                self._swept_at = time.monotonic() + SWEEP_DELAY_AFTER_OUTAGE
            close_old_connections()
            self.reset_heap()
            return OUTAGE_RETRY_SECONDS

    def _tick(self) -> float:
        self._session.configure()
        if self._synced and (idle := idle_time(self.name)) is not None:
            return min(idle, tick.MAX_SLEEP).total_seconds()
        started = database_now()
        if not self._synced:
            self._sync(started)
        sweeping = self._sweep_due()
        ticked = tick.run_once(
            started,
            sweeping=sweeping,
            rounds=tick.MAX_ROUNDS,
            clock=database_now,
            careful=self._careful,
        )
        self._careful = ticked.careful
        now = database_now()
        with unless_locked("sign in"):
            presence.renew(self.name, Process.Kind.BEAT, now=now, tick_duration=now - started)
        if not ticked.quiet:
            emit(Event.BEAT_TICKED, beat=self.name, **vars(ticked))
        if ticked.more:
            return 0.0
        wait = tick.sleep_for(started)
        if ticked.contended or (ticked.quiet and not wait):
            # Another beat has locked what is due. Looking again at once would be a busy loop.
            return tick.CONTENTION_DELAY.total_seconds()
        return max((started + wait - now).total_seconds(), 0.0)

    def _sweep_due(self) -> bool:
        if time.monotonic() - self._swept_at < sweep.INTERVAL.total_seconds():
            return False
        self._swept_at = time.monotonic()
        return True

    def close(self) -> None:
        self._wakeup.close()
        try:
            presence.sign_out(self.name)
        except OUTAGE_ERRORS:
            connection.close()
        super().close()


@contextmanager
def defer_stop_signals() -> Iterator[None]:
    """Deliver SIGTERM and SIGINT after the block, so that a beat finishes a tick it has begun (EXE-9)."""
    if threading.current_thread() is not threading.main_thread():
        yield  # an embedded beat: only the main thread receives signals and may set handlers
        return
    received: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    handlers = {number: signal.signal(number, remember) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])
