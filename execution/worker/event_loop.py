"""Run a coroutine to its end on the event loop of this process (of this thread, in a pool of threads).

All attempts share one loop, so that a client that a task opens and keeps, such as a connection pool, works in
the next attempt. A coroutine is stopped by its own cancellation, never by an exception in the middle of the
loop.
"""

import asyncio
import os
from collections.abc import Awaitable
from threading import current_thread, local, main_thread
from typing import Any

from punctual.execution.supervision.board import StopCause, board
from punctual.execution.supervision.interrupt import exception_for, interruption

_own = local()


def run_to_end(awaitable: Awaitable[Any]) -> Any:
    loop = _loop()
    task = loop.create_task(_as_coroutine(awaitable))
    reachable = current_thread() is main_thread()
    if reachable:
        interruption.loop, interruption.task = loop, task
    try:
        return loop.run_until_complete(task)
    except asyncio.CancelledError:
        cause = board.own_slot().interruption
        if cause is StopCause.NONE:
            raise
        raise exception_for(cause) from None  # the supervisor canceled it: raise the reason
    finally:
        if reachable:
            interruption.loop = interruption.task = None
        if not task.done():
            _own.loop = None  # the coroutine has stopped the loop: the next one must not go on with its rest


def _loop() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop | None = getattr(_own, "loop", None)
    if loop is None or loop.is_closed() or _own.pid != os.getpid():
        # A loop inherited by a fork would share its selector with the parent.
        loop = _own.loop = _new_loop()
        _own.pid = os.getpid()
    return loop


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.new_event_loop()
    except Exception:  # noqa: BLE001 - a function has set an event loop policy of its own, which fails
        return asyncio.SelectorEventLoop()


async def _as_coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
