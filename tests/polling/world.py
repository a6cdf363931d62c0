"""Schedulers in virtual time: the test controls the clock and every pause; the database is real.

A step is done when the event loop has nothing ready and no statement is in progress; then time moves to
the next instant a process waits for. A crash cancels everything a process does and records nothing, as
SIGKILL would.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar, cast

from punctual.polling.claims import Claim
from punctual.polling.database_thread import DatabaseThread
from punctual.polling.engine import Dependencies
from punctual.polling.phases import Lifecycle
from punctual.polling.registrations import Callback, Registration
from punctual.polling.scheduler_events import Facts, SchedulerEvent
from tests.polling.properties import check
from tests.polling.trace import Recorder, RunEnd, RunStart

T = TypeVar("T")
LEASE = timedelta(seconds=45)
HEARTBEAT = timedelta(seconds=30)


class HasReady(Protocol):
    """The private queue of asyncio's event loops: empty when nothing is left to do."""

    _ready: Sequence[object]


@dataclass
class Call:
    """A callback that runs until the test ends it."""

    task: str
    ending: asyncio.Future[None]


@dataclass
class Sleeper:
    until: datetime
    wake: asyncio.Event
    passed: asyncio.Event = field(default_factory=asyncio.Event)


class Process:
    """One scheduler with a database thread of its own."""

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.database = DatabaseThread()
        self.sleepers: list[Sleeper] = []
        self.pauses: list[float] = []
        self.alive = True
        self.renew_at = world.now + HEARTBEAT
        dependencies = Dependencies(
            database=self.database,
            clock=self._clock,
            pause=self._pause,
            zone=world.zone,
            worker=name,
            lease=LEASE,
            listener=self._listen,
        )
        self.background: list[asyncio.Task[None]] = []
        self.lifecycle = Lifecycle(dependencies, prepare=lambda: None, release=self.database.close)

    @property
    def engine(self) -> Any:
        return self.lifecycle.engine

    def _listen(self, signal: SchedulerEvent, facts: Facts) -> None:
        if self.alive:  # a dead process emits nothing
            self.world.recorder(signal, facts)

    async def _clock(self) -> datetime:
        return self.world.now

    async def _pause(self, wake: asyncio.Event, seconds: float) -> None:
        self.pauses.append(seconds)
        sleeper = Sleeper(self.world.now + timedelta(seconds=seconds), wake)
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self.sleepers.append(sleeper)
        waits = [asyncio.ensure_future(event.wait()) for event in (wake, sleeper.passed)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.sleepers.remove(sleeper)
            for wait in waits:
                wait.cancel()

    async def renew(self) -> None:
        self.renew_at = self.world.now + HEARTBEAT
        if self.engine.running:
            lost: tuple[Claim, ...] = await self.database.run(self.engine.renew_leases, self.world.now)
            for claim in lost:
                self.engine.drop(claim)

    async def die(self) -> None:
        self.alive = False
        tasks = [task for _, task in self.engine.running.values()]
        poller = self.lifecycle._poller._task
        for task in [*self.background, *tasks, *([poller] if poller else [])]:
            task.cancel()
        await self.world.settle()
        await self.database.close()


class World:
    def __init__(self, now: datetime, *, zone: str = "UTC") -> None:
        self.now = now
        self.zone = zone
        self.runner = asyncio.Runner()
        self.recorder = Recorder(lambda: self.now, zone=zone)
        self.calls: list[Call] = []
        self.processes: list[Process] = []
        self.process = self.boot()

    # -- processes -------------------------------------------------------------------------------

    def boot(self) -> Process:
        self.process = Process(self, f"host/{len(self.processes) + 1}")
        self.processes.append(self.process)
        return self.process

    def crash(self) -> None:
        self.recorder.crash()
        self.do(self.process.die())
        self.calls = [call for call in self.calls if not call.ending.done()]

    def close(self) -> None:
        for process in self.processes:
            if process.alive:
                self.do(process.die())
        self.runner.close()

    # -- user calls ------------------------------------------------------------------------------

    def initialize(self, *registrations: Registration) -> None:
        self.do(self.process.lifecycle.initialize(list(registrations)))

    def stop(self) -> None:
        self.do(self.process.lifecycle.stop())

    def register(self, name: str, cron: str = "* * * * *", delay: float = 60) -> Registration:
        """A registration whose callback runs until `finish`."""
        return Registration(name, cron, self.open_call(name), timedelta(seconds=delay))

    def open_call(self, name: str) -> Callback:
        async def callback() -> None:
            call = Call(name, asyncio.get_running_loop().create_future())
            self.calls.append(call)
            await call.ending

        return callback

    def finish(self, task: str, error: BaseException | None = None) -> None:
        """End the running call of a task, with success or with an error."""
        (call,) = [call for call in self.calls if call.task == task]
        self.calls.remove(call)
        if error is None:
            call.ending.set_result(None)
        else:
            call.ending.set_exception(error)
        self.do(self.settle())

    @property
    def running(self) -> list[str]:
        return sorted(call.task for call in self.calls)

    # -- time ------------------------------------------------------------------------------------

    def advance(self, **span: float) -> None:
        self.do(self._advance(self.now + timedelta(**span)))

    def advance_to(self, instant: datetime) -> None:
        self.do(self._advance(instant))

    async def _advance(self, end: datetime) -> None:
        while (instant := self._next_instant()) <= end:
            self.now = max(self.now, instant)
            for process in self._alive:
                if process.renew_at <= self.now:
                    await process.renew()
                for sleeper in process.sleepers:
                    if sleeper.until <= self.now:
                        sleeper.passed.set()
            await self.settle()
        self.now = end

    def _next_instant(self) -> datetime:
        waits = [sleeper.until for process in self._alive for sleeper in process.sleepers]
        # A process without claims has nothing to renew.
        renewals = [process.renew_at for process in self._alive if process.engine.running]
        return min([*waits, *renewals], default=datetime.max.replace(tzinfo=self.now.tzinfo))

    @property
    def _alive(self) -> list[Process]:
        return [process for process in self.processes if process.alive]

    async def settle(self) -> None:
        loop = cast("HasReady", asyncio.get_running_loop())
        while True:
            await asyncio.sleep(0)
            if any(process.database.busy for process in self.processes):
                await asyncio.sleep(0.0002)
            elif not loop._ready:
                return

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        async def done() -> T:
            try:
                return await coroutine
            finally:
                await self.settle()

        return self.runner.run(done())

    def begin(self, coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start a coroutine without waiting for it; the test goes on meanwhile."""

        async def create() -> asyncio.Task[None]:
            task = asyncio.create_task(coroutine)
            self.process.background.append(task)
            await self.settle()
            return task

        return self.runner.run(create())

    # -- results ---------------------------------------------------------------------------------

    def starts(self, task: str) -> list[datetime]:
        return [
            event.at for event in self.recorder.events if isinstance(event, RunStart) and event.task == task
        ]

    def ends(self, task: str) -> list[bool]:
        return [
            event.success
            for event in self.recorder.events
            if isinstance(event, RunEnd) and event.task == task
        ]

    @property
    def phase(self) -> str:
        return str(self.process.lifecycle.phase)

    @property
    def signals(self) -> list[SchedulerEvent]:
        return self.recorder.names

    def assert_properties_hold(self) -> None:
        violations = check(self.recorder.trace())
        assert not violations, "\n".join(map(str, [*violations, *self.recorder.events]))
