"""The loop around `Engine.run_once`: poll, then sleep until the next due instant, a minute at most."""

import asyncio
from datetime import timedelta

from polling.engine import Engine
from polling.events import Signal, emit

LONGEST_PAUSE = timedelta(minutes=1)
AFTER_TROUBLE = 1.0
BREATH = 0.1  # between two polls, whatever wakes them: a retry delay of zero must not flood the database


class Poller:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._task: asyncio.Task[None] | None = None

    @property
    def active(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Poll at once, whether or not the loop was going already."""
        self._engine.wake.set()
        if not self.active:
            self._engine.halted.clear()
            self._task = asyncio.create_task(self._poll_until_halted(), name="polling")

    async def halt(self) -> None:
        """Nothing starts once this returns. A start under way is completed: cut short, it could leave a
        claim without a callback."""
        self._engine.halted.set()
        self._engine.wake.set()
        if self._task is not None:
            await asyncio.wait([self._task])
            self._task = None

    async def _poll_until_halted(self) -> None:
        engine = self._engine
        while not engine.halted.is_set():
            engine.wake.clear()
            seconds = await self._polled()
            await engine.around.pause(engine.halted, min(seconds, BREATH))
            if not engine.halted.is_set():
                await engine.around.pause(engine.wake, seconds - BREATH)

    async def _polled(self) -> float:
        """Seconds to sleep."""
        engine = self._engine
        try:
            now = await engine.around.clock()
            polled = await engine.run_once(now)
        except Exception as error:  # noqa: BLE001 - one bad poll must not be the last
            emit(engine.around.listener, Signal.POLL_TROUBLED, error=repr(error))
            return AFTER_TROUBLE
        ahead = LONGEST_PAUSE if polled.wake_at is None else polled.wake_at - now
        return max(0.0, min(ahead, LONGEST_PAUSE).total_seconds())
