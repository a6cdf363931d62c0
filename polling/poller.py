"""Call `Engine.run_once` in a loop: poll, then sleep until the next due instant, at most a minute."""

import asyncio
from datetime import timedelta

from punctual.polling.engine import Engine
from punctual.polling.scheduler_events import SchedulerEvent, emit

MAX_PAUSE = timedelta(minutes=1)
PAUSE_AFTER_ERROR = 1.0
MIN_PAUSE = 0.1  # between two polls: a retry delay of zero must not flood the database


class Poller:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._task: asyncio.Task[None] | None = None

    @property
    def active(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Poll now; start the loop if it is not running."""
        self._engine.wake.set()
        if not self.active:
            self._engine.halted.clear()
            self._task = asyncio.create_task(self._poll_until_halted(), name="polling")

    async def halt(self) -> None:
        """Stop the loop; no task starts after this returns. A start in progress is completed, because
        cancelling it could leave a claim without a callback."""
        self._engine.halted.set()
        self._engine.wake.set()
        if self._task is not None:
            await asyncio.wait([self._task])
            self._task = None

    async def _poll_until_halted(self) -> None:
        engine = self._engine
        while not engine.halted.is_set():
            engine.wake.clear()
            seconds = await self._poll()
            await engine.dependencies.pause(engine.halted, min(seconds, MIN_PAUSE))
            if not engine.halted.is_set():
                await engine.dependencies.pause(engine.wake, seconds - MIN_PAUSE)

    async def _poll(self) -> float:
        """Poll once; return the seconds to sleep."""
        engine = self._engine
        try:
            now = await engine.dependencies.clock()
            result = await engine.run_once(now)
        except Exception as error:  # noqa: BLE001 - a failed poll must not end the loop
            emit(engine.dependencies.listener, SchedulerEvent.POLL_FAILED, error=repr(error))
            return PAUSE_AFTER_ERROR
        pause = MAX_PAUSE if result.wake_at is None else result.wake_at - now
        return max(0.0, min(pause, MAX_PAUSE).total_seconds())
