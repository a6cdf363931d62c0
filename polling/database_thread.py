"""Run ORM code for the event loop in one dedicated thread with its own connection.

Django refuses queries in the thread of an event loop, and its connections belong to threads. The
dedicated thread runs the scheduler's steps in order, apart from the other queries of the process.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connections

P = ParamSpec("P")
T = TypeVar("T")


class DatabaseThread:
    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self.busy = 0  # steps in progress

    async def run(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.busy += 1
        try:
            step_in_thread = sync_to_async(
                _on_live_connection(step), thread_sensitive=False, executor=self._open()
            )
            return await step_in_thread(*args, **kwargs)
        finally:
            self.busy -= 1

    def run_from_thread(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a step for a caller outside the event loop, such as the heartbeat thread."""
        return self._open().submit(_on_live_connection(step), *args, **kwargs).result()

    async def close(self) -> None:
        """Close the connection and end the thread; a later step opens new ones."""
        # Reset first: a step that arrives meanwhile must not be submitted to the ending thread.
        executor, self._executor = self._executor, None
        if executor is None:
            return
        self.busy += 1
        try:
            await sync_to_async(connections.close_all, thread_sensitive=False, executor=executor)()
        finally:
            self.busy -= 1
            executor.shutdown(wait=False)

    def _open(self) -> ThreadPoolExecutor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="punctual-polling")
        return self._executor


def _on_live_connection(step: Callable[P, T]) -> Callable[P, T]:
    """Replace a dead connection before the step, as Django does at the start of a request."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        close_old_connections()
        return step(*args, **kwargs)

    return call
