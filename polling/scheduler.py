"""The public `Scheduler`: `initialize`, `stop`, and the heartbeat thread that renews leases (POL-5)."""

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Event, Thread

from django.conf import settings

from punctual.jobs.clock import database_now
from punctual.jobs.config.bounded_duration import MAX_DURATION
from punctual.jobs.events import Event as Events
from punctual.jobs.events import emit_error
from punctual.polling.claims import LEASE, Claim
from punctual.polling.database_thread import DatabaseThread
from punctual.polling.engine import Dependencies, Engine
from punctual.polling.errors import SchedulerOptionError
from punctual.polling.phases import Lifecycle, Phase
from punctual.polling.scheduler_events import Listener, ignore_event
from punctual.schedules.errors import UnknownZoneError
from punctual.schedules.wall_clock.zones import find_zone

__all__ = ["Phase", "Scheduler"]

MIN_LEASE = timedelta(seconds=0.1)  # it is renewed three times as often


class Scheduler:
    """Run async callbacks of this process on POSIX cron schedules; state and history are in the database.

    `timezone` applies to the cron fields; the default is Django's TIME_ZONE. After a crash, a task that
    was running starts again once `lease` has passed since the last heartbeat.
    """

    def __init__(
        self, *, timezone: str | None = None, lease: timedelta = LEASE, listener: Listener = ignore_event
    ) -> None:
        database = DatabaseThread()

        async def clock() -> datetime:
            return await database.run(database_now)

        # Django sets TZ to TIME_ZONE, so TIME_ZONE is the local time of this process.
        dependencies = Dependencies(
            database=database,
            clock=clock,
            pause=pause,
            zone=_check_zone(settings.TIME_ZONE if timezone is None else timezone),
            worker=f"{socket.gethostname()}/{os.getpid()}",
            lease=_check_lease(lease),
            listener=listener,
        )
        # The life cycle starts and stops the heartbeat under its lock, so that a `stop` cannot stop the
        # heartbeat of the `initialize` that waits for it.
        self._lifecycle = Lifecycle(dependencies, prepare=self._prepare, release=self._release)
        self._heartbeat = Heartbeat(self._lifecycle.engine)

    @property
    def phase(self) -> Phase:
        return self._lifecycle.phase

    async def initialize(self, registrations: Sequence[Sequence[object]]) -> None:
        """Replace the earlier registrations by these, and start what is due.

        Raises a `punctual.polling.errors.PollingError` if one is invalid; then nothing is changed.
        """
        await self._lifecycle.initialize(registrations)

    async def stop(self) -> None:
        """Start no more tasks; return when every running callback has ended and been recorded."""
        await self._lifecycle.stop()

    def _prepare(self) -> None:
        self._heartbeat.start()

    async def _release(self) -> None:
        self._heartbeat.stop()
        await self._lifecycle.engine.dependencies.database.close()


def _check_zone(name: object) -> str:
    try:
        if isinstance(name, str):
            return find_zone(name).name
    except UnknownZoneError:
        pass
    raise SchedulerOptionError("timezone", name, "expected an IANA zone such as Europe/Berlin")


def _check_lease(lease: object) -> timedelta:
    if not isinstance(lease, timedelta) or not MIN_LEASE <= lease <= MAX_DURATION:
        reason = f"expected a timedelta of {MIN_LEASE.total_seconds():g} seconds to {MAX_DURATION.days} days"
        raise SchedulerOptionError("lease", lease, reason)
    return lease


async def pause(wake: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await wake.wait()


class Heartbeat:
    """Renew leases from a thread, so that a callback that blocks the event loop keeps its claim."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._done = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._done = Event()
            arguments = (self._done, asyncio.get_running_loop())
            self._thread = Thread(target=self._run, args=arguments, daemon=True, name="punctual-heartbeat")
            self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread = None

    def _run(self, done: Event, loop: asyncio.AbstractEventLoop) -> None:
        while not done.wait(self._engine.dependencies.lease.total_seconds() / 3):
            for claim in self._lost_claims():
                with suppress(RuntimeError):  # the loop is closed, its callbacks have ended
                    loop.call_soon_threadsafe(self._engine.drop, claim)

    def _lost_claims(self) -> tuple[Claim, ...]:
        if not self._engine.running:
            return ()
        try:
            return self._engine.dependencies.database.run_from_thread(self._renew)
        except Exception:  # noqa: BLE001 - the database may be back before the lease expires
            emit_error(Events.LEASES_NOT_RENEWED)
            return ()

    def _renew(self) -> tuple[Claim, ...]:
        return self._engine.renew_leases(database_now())
