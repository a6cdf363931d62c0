"""An awaitable → its result, on the one event loop of this process (of this thread, in a pool of threads).

One loop for all attempts: a client that a task opens and keeps, such as a pool of connections, still works
in the next one. Ending a coroutine early goes through its own cancellation, never through an exception
in the middle of the loop.
"""

import asyncio
import os
from collections.abc import Awaitable
from threading import current_thread, local, main_thread
from typing import Any

from execution.interrupt import exception, interruption
from execution.slots import Why, board

_own = local()


def run_to_end(awaitable: Awaitable[Any]) -> Any:
    loop = _loop()
    task = loop.create_task(_awaited(awaitable))
    reachable = current_thread() is main_thread()
    if reachable:
        interruption.loop, interruption.task = loop, task
    try:
        return loop.run_until_complete(task)
    except asyncio.CancelledError:
        why = board.mine().interruption
        if why is Why.NONE:
            raise
        raise exception(why) from None  # canceled on the supervisor's behalf: say what for
    finally:
        if reachable:
            interruption.loop = interruption.task = None


def _loop() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop | None = getattr(_own, "loop", None)
    if loop is None or loop.is_closed() or _own.pid != os.getpid():
        # Not shared with a parent: after a fork both would wait at the same selector.
        loop = _own.loop = asyncio.new_event_loop()
        _own.pid = os.getpid()
    return loop


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result
