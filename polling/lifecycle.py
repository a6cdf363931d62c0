"""`initialize` and `stop` → the scheduler's phases, one call at a time (POL-5).

    uninitialized → initializing → running → stopping → stopped
                                   running → reinitializing → running | uninitialized

Both may be called at any time, by callbacks too: a callback that waits for `stop` or `initialize` is
not waited for, or the two would wait for each other for ever.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from uuid import UUID

from polling.adoption import Adopted
from polling.engine import INSIDE, Engine, Surroundings
from polling.errors import StopSchedulerError
from polling.events import Signal, emit
from polling.poller import Poller
from polling.registrations import Checked, checked

Prepare = Callable[[], None]  # before the first poll: what must be there while callbacks run
Release = Callable[[], Awaitable[None]]  # after the last callback


class Phase(StrEnum):
    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    RUNNING = "running"
    REINITIALIZING = "reinitializing"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Lifecycle:
    def __init__(self, around: Surroundings, *, prepare: Prepare, release: Release) -> None:
        self.phase = Phase.UNINITIALIZED
        self.engine = Engine(around)
        self._prepare = prepare
        self._release = release
        self._releasing: asyncio.Task[None] | None = None
        self._poller = Poller(self.engine)
        self._gate = asyncio.Lock()
        self._visitors: list[UUID] = []

    async def initialize(self, registrations: object) -> None:
        with self._visiting():
            async with self._gate:
                self._begin()
                try:
                    wanted = checked(registrations)
                    fate = await self.engine.adopt(wanted)
                except Exception as error:
                    await self._fail(error)
                    raise
                self.phase = Phase.RUNNING
                rules = {item.name: item.rule for item in wanted}
                self._tell(Signal.INITIALIZATION_COMPLETED, registrations=rules, **_counts(fate))
                await self._keep_polling(wanted)

    async def stop(self) -> None:
        with self._visiting():
            async with self._gate:
                if self._at_rest:
                    return
                self.phase = Phase.STOPPING
                polling = self._poller.active
                # First the poll, then the word: whoever hears of the stop sees nothing start after it.
                await self._poller.halt()
                self._tell(Signal.STOP_REQUESTED)
                if polling:
                    self._tell(Signal.POLLING_STOP_REQUESTED)
                await self._quiet()
                if polling:
                    self._tell(Signal.POLLING_STOPPED)
                await self._close()

    # -- initialize ------------------------------------------------------------------------------

    def _begin(self) -> None:
        again = self.phase is Phase.RUNNING
        self.phase = Phase.REINITIALIZING if again else Phase.INITIALIZING
        self._prepare()
        self._tell(Signal.REINITIALIZATION_STARTED if again else Signal.INITIALIZATION_STARTED)

    async def _fail(self, error: Exception) -> None:
        """What is stored is as it was before; nothing is polled until an `initialize` succeeds."""
        if self._poller.active:
            await self._poller.halt()
            self._tell(Signal.POLLING_STOPPED)
        self.phase = Phase.UNINITIALIZED
        self._tell(Signal.INITIALIZATION_FAILED, error=repr(error))
        await self._release_once_idle()

    async def _keep_polling(self, wanted: tuple[Checked, ...]) -> None:
        if wanted:
            if not self._poller.active:
                self._tell(Signal.POLLING_STARTED)
            self._poller.start()
        elif self._poller.active:
            await self._poller.halt()
            self._tell(Signal.POLLING_STOPPED)

    # -- stop ------------------------------------------------------------------------------------

    async def _quiet(self) -> None:
        """Every callback has ended, but for those that are waiting for us."""
        while self.engine.held.keys() - set(self._visitors):
            self.engine.ended.clear()
            await self.engine.ended.wait()

    async def _close(self) -> None:
        await self._release_once_idle()
        self.phase = Phase.STOPPED
        self._tell(Signal.STOPPED)
        troubles, self.engine.unrecorded = self.engine.unrecorded, []
        if troubles:
            raise StopSchedulerError(troubles[-1]) from troubles[-1]

    async def _release_once_idle(self) -> None:
        """Threads and connections go; a callback that is still to be recorded needs them until then."""
        if self.engine.held:
            self._releasing = asyncio.create_task(self._release_later())
        else:
            await self._release()

    async def _release_later(self) -> None:
        tasks = [task for _, task in self.engine.held.values()]
        await asyncio.wait(tasks)
        if self.phase in (Phase.STOPPED, Phase.UNINITIALIZED) and not self.engine.held:
            await self._release()

    @property
    def _at_rest(self) -> bool:
        """Nothing to stop. A failed `initialize` may have left callbacks running: they are waited for."""
        idle = self.phase is Phase.UNINITIALIZED and not self.engine.held
        return self.phase is Phase.STOPPED or idle

    @contextmanager
    def _visiting(self) -> Iterator[None]:
        """A callback that waits here is known as a visitor as long as it does."""
        claim = INSIDE.get()
        if claim is None:
            yield
            return
        self._visitors.append(claim)
        self.engine.ended.set()
        try:
            yield
        finally:
            self._visitors.remove(claim)

    def _tell(self, signal: Signal, **facts: object) -> None:
        emit(self.engine.around.listener, signal, **facts)


def _counts(fate: Adopted) -> dict[str, int]:
    return {name: len(found) for name, found in vars(fate).items()}
