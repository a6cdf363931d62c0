"""The door users come through: database time, the heartbeat's thread, and the two methods (POL-5)."""

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Event, Thread
from zoneinfo import ZoneInfo

from django.conf import settings

from jobs.clock import database_now
from jobs.events import Event as Events
from jobs.events import emit_error
from polling.claims import LEASE, Claim
from polling.database import DatabaseThread
from polling.engine import Engine, Surroundings
from polling.events import Listener, deaf
from polling.lifecycle import Lifecycle, Phase

__all__ = ["Phase", "Scheduler"]


class Scheduler:
    """Runs async callbacks of this process on POSIX cron schedules; state and history are rows.

    `timezone` is where the cron fields are read, Django's TIME_ZONE unless given. After a crash a
    task that was running starts again once `lease` has passed since the last sign of life.
    """

    def __init__(
        self, *, timezone: str | None = None, lease: timedelta = LEASE, listener: Listener = deaf
    ) -> None:
        database = DatabaseThread()

        async def clock() -> datetime:
            return await database.run(database_now)

        # Django sets the process's TZ to TIME_ZONE: it is the host's local time as this process sees it.
        around = Surroundings(
            database=database,
            clock=clock,
            pause=pause,
            zone=ZoneInfo(timezone or settings.TIME_ZONE).key,
            worker=f"{socket.gethostname()}/{os.getpid()}",
            lease=lease,
            listener=listener,
        )
        # Started and stopped within the life cycle's turns: an `initialize` that waits for a `stop` to end
        # must not find its heartbeat stopped with it.
        self._lifecycle = Lifecycle(around, prepare=self._prepare, release=self._release)
        self._heartbeat = Heartbeat(self._lifecycle.engine)

    @property
    def phase(self) -> Phase:
        return self._lifecycle.phase

    async def initialize(self, registrations: Sequence[Sequence[object]]) -> None:
        """Put these registrations in force in place of the earlier ones, and start what is due.

        Raises a `polling.errors.PollingError`, and then nothing has been scheduled.
        """
        await self._lifecycle.initialize(registrations)

    async def stop(self) -> None:
        """Start nothing more; return once every running callback has ended and been recorded."""
        await self._lifecycle.stop()

    def _prepare(self) -> None:
        self._heartbeat.start()

    async def _release(self) -> None:
        self._heartbeat.stop()
        await self._lifecycle.engine.around.database.close()


async def pause(wake: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await wake.wait()


class Heartbeat:
    """Renews leases every third of one, from a thread: a callback that blocks the loop keeps its claim."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._done = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._done = Event()
            arguments = (self._done, asyncio.get_running_loop())
            self._thread = Thread(target=self._beat, args=arguments, daemon=True, name="punctual-heartbeat")
            self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread = None

    def _beat(self, done: Event, loop: asyncio.AbstractEventLoop) -> None:
        while not done.wait(self._engine.around.lease.total_seconds() / 3):
            for claim in self._lost():
                with suppress(RuntimeError):  # the loop is closed: its callbacks have ended
                    loop.call_soon_threadsafe(self._engine.drop, claim)

    def _lost(self) -> tuple[Claim, ...]:
        if not self._engine.held:
            return ()
        try:
            return self._engine.around.database.run_from_thread(self._renewed)
        except Exception:  # noqa: BLE001 - the database may be back before the lease runs out
            emit_error(Events.LEASES_UNRENEWED)
            return ()

    def _renewed(self) -> tuple[Claim, ...]:
        return self._engine.renewed(database_now())
