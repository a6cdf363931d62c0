"""A step that uses the ORM → its result, awaited: one thread and one connection of the scheduler's own.

Django refuses queries in an event loop's thread, and its connections belong to threads. One dedicated
thread keeps the scheduler's statements in order and away from whatever else the process does.
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
        self.busy = 0  # steps under way

    async def run(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.busy += 1
        try:
            step_in_thread = sync_to_async(_fresh(step), thread_sensitive=False, executor=self._opened())
            return await step_in_thread(*args, **kwargs)
        finally:
            self.busy -= 1

    def run_from_thread(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for a caller that is a thread itself, such as the heartbeat."""
        return self._opened().submit(_fresh(step), *args, **kwargs).result()

    async def close(self) -> None:
        """Let connection and thread go; a later step opens new ones."""
        # Taken away first: a step that comes meanwhile must not end up in a thread that is leaving.
        executor, self._executor = self._executor, None
        if executor is None:
            return
        self.busy += 1
        try:
            await sync_to_async(connections.close_all, thread_sensitive=False, executor=executor)()
        finally:
            self.busy -= 1
            executor.shutdown(wait=False)

    def _opened(self) -> ThreadPoolExecutor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="punctual-polling")
        return self._executor


def _fresh(step: Callable[P, T]) -> Callable[P, T]:
    """What a request does for a view: a connection that died is replaced before it is used."""

    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        close_old_connections()
        return step(*args, **kwargs)

    return called
