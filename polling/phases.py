"""Run `initialize` and `stop` one at a time and keep the phase of the scheduler (POL-5).

    uninitialized → initializing → running → stopping → stopped
                                   running → reinitializing → running | uninitialized
                                   running ⇄ replaced, by `initialize` of other processes

Both may be called at any time, by callbacks too. `stop` does not wait for a callback that is itself
waiting for `stop` or `initialize`: that would be a deadlock.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from uuid import UUID

from punctual.polling.engine import CURRENT_CLAIM, Dependencies, Engine
from punctual.polling.errors import StopSchedulerError
from punctual.polling.poller import Poller
from punctual.polling.reconciliation import Reconciliation
from punctual.polling.registrations import CheckedRegistration, check_registrations
from punctual.polling.scheduler_events import SchedulerEvent, emit

Prepare = Callable[[], None]  # called before the first poll
Release = Callable[[], Awaitable[None]]  # called after the last callback


class Phase(StrEnum):
    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    RUNNING = "running"
    REPLACED = "replaced"  # running, but another process has registered a different set
    REINITIALIZING = "reinitializing"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Lifecycle:
    def __init__(self, dependencies: Dependencies, *, prepare: Prepare, release: Release) -> None:
        self._phase = Phase.UNINITIALIZED
        self.engine = Engine(dependencies)
        self._prepare = prepare
        self._release = release
        self._releasing: asyncio.Task[None] | None = None
        self._poller = Poller(self.engine)
        self._lock = asyncio.Lock()
        self._waiting_claims: list[UUID] = []

    @property
    def phase(self) -> Phase:
        return Phase.REPLACED if self._phase is Phase.RUNNING and self.engine.replaced else self._phase

    async def initialize(self, registrations: object) -> None:
        with self._calling():
            async with self._lock:
                self._begin()
                try:
                    checked = check_registrations(registrations)
                    result = await self.engine.initialize(checked)
                except Exception as error:
                    await self._fail(error)
                    raise
                self._phase = Phase.RUNNING
                rules = {item.name: item.rule for item in checked}
                self._emit(SchedulerEvent.INITIALIZATION_COMPLETED, registrations=rules, **_counts(result))
                await self._start_or_halt_polling(checked)

    async def stop(self) -> None:
        with self._calling():
            async with self._lock:
                if self._is_idle:
                    return
                self._phase = Phase.STOPPING
                polling = self._poller.active
                # Halt before emitting: a listener must see no start after STOP_REQUESTED.
                await self._poller.halt()
                self._emit(SchedulerEvent.STOP_REQUESTED)
                if polling:
                    self._emit(SchedulerEvent.POLLING_STOP_REQUESTED)
                await self._wait_for_callbacks()
                if polling:
                    self._emit(SchedulerEvent.POLLING_STOPPED)
                await self._close()

    # -- initialize ------------------------------------------------------------------------------

    def _begin(self) -> None:
        again = self._phase is Phase.RUNNING
        self._phase = Phase.REINITIALIZING if again else Phase.INITIALIZING
        self._prepare()
        self._emit(
            SchedulerEvent.REINITIALIZATION_STARTED if again else SchedulerEvent.INITIALIZATION_STARTED
        )

    async def _fail(self, error: Exception) -> None:
        """Stop polling until an `initialize` succeeds; the stored tasks are unchanged."""
        if self._poller.active:
            await self._poller.halt()
            self._emit(SchedulerEvent.POLLING_STOPPED)
        self._phase = Phase.UNINITIALIZED
        self._emit(SchedulerEvent.INITIALIZATION_FAILED, error=repr(error))
        await self._release_once_idle()

    async def _start_or_halt_polling(self, registrations: tuple[CheckedRegistration, ...]) -> None:
        if registrations:
            if not self._poller.active:
                self._emit(SchedulerEvent.POLLING_STARTED)
            self._poller.start()
        elif self._poller.active:
            await self._poller.halt()
            self._emit(SchedulerEvent.POLLING_STOPPED)

    # -- stop ------------------------------------------------------------------------------------

    async def _wait_for_callbacks(self) -> None:
        """Wait for every callback, except those that are waiting for this life cycle."""
        while self.engine.running.keys() - set(self._waiting_claims):
            self.engine.callback_ended.clear()
            await self.engine.callback_ended.wait()

    async def _close(self) -> None:
        await self._release_once_idle()
        self._phase = Phase.STOPPED
        self._emit(SchedulerEvent.STOPPED)
        errors, self.engine.record_errors = self.engine.record_errors, []
        if errors:
            raise StopSchedulerError(errors[-1]) from errors[-1]

    async def _release_once_idle(self) -> None:
        """Release threads and connections once no callback needs them to record its outcome."""
        if self.engine.running:
            self._releasing = asyncio.create_task(self._release_later())
        else:
            await self._release()

    async def _release_later(self) -> None:
        tasks = [task for _, task in self.engine.running.values()]
        await asyncio.wait(tasks)
        if self._phase in (Phase.STOPPED, Phase.UNINITIALIZED) and not self.engine.running:
            await self._release()

    @property
    def _is_idle(self) -> bool:
        """Whether there is nothing to stop. A failed `initialize` may have left callbacks running."""
        idle = self._phase is Phase.UNINITIALIZED and not self.engine.running
        return self._phase is Phase.STOPPED or idle

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """Mark the calling callback, if any, as waiting for this life cycle."""
        claim = CURRENT_CLAIM.get()
        if claim is None:
            yield
            return
        self._waiting_claims.append(claim)
        self.engine.callback_ended.set()
        try:
            yield
        finally:
            self._waiting_claims.remove(claim)

    def _emit(self, event: SchedulerEvent, **facts: object) -> None:
        emit(self.engine.dependencies.listener, event, **facts)


def _counts(result: Reconciliation) -> dict[str, int]:
    return {name: len(names) for name, names in vars(result).items()}
