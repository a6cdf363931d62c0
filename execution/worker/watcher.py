"""Call an action unless a block ends before its time; one thread per process, which mostly sleeps.

An attempt that ends in time costs two set operations: no thread is started for it, none is woken.
The thread is daemonic, ends when there is nothing left to watch, and keeps no database connection
between two actions.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Lock, Thread

from django.db import connection

from punctual.jobs.events import Event, emit_error

Action = Callable[[], float | None]  # the seconds until it is due again, or None

AGAIN = 1.0  # seconds, after an action that failed


class _Entry:
    __slots__ = ("action", "due", "under_way")

    def __init__(self, action: Action, due: float) -> None:
        self.action, self.due = action, due
        self.under_way = Lock()


class Watcher:
    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._changed = Condition()
        self._entries: set[_Entry] = set()
        self._wakes = 0.0  # when the thread will look again
        self._thread: Thread | None = None

    @contextmanager
    def after(self, seconds: float, action: Action) -> Iterator[None]:
        """Call `action` if the block is still running by then; an action under way is waited for."""
        entry = _Entry(action, time.monotonic() + seconds)
        self._add(entry)
        try:
            yield
        finally:
            with self._changed:
                self._entries.discard(entry)
            with entry.under_way:
                pass

    def _add(self, entry: _Entry) -> None:
        with self._changed:
            self._entries.add(entry)
            if self._thread is None:
                self._wakes = entry.due
                self._thread = Thread(target=self._watch, name="punctual-watcher", daemon=True)
                self._thread.start()
            elif entry.due < self._wakes:
                self._changed.notify()

    def _watch(self) -> None:
        while entry := self._next():
            with entry.under_way:
                again = self._acted(entry) if entry in self._entries else None
            with self._changed:
                if again is None:
                    self._entries.discard(entry)
                else:
                    entry.due = time.monotonic() + again

    def _next(self) -> _Entry | None:
        """The first entry whose time has come; None once there is nothing to watch."""
        with self._changed:
            while self._entries:
                first = min(self._entries, key=lambda entry: entry.due)
                self._wakes = first.due
                left = first.due - time.monotonic()
                if left <= 0:
                    return first
                self._changed.wait(left)
            self._thread = None
            return None

    def _acted(self, entry: _Entry) -> float | None:
        try:
            return entry.action()
        except Exception:  # noqa: BLE001 - as said below
            # Whatever went wrong, the others' actions must still come; the database may be back soon.
            emit_error(Event.WATCHER_FAILED)
            return AGAIN
        finally:
            connection.close()


watcher = Watcher()
# A forked child has none of the parent's threads: it starts its own.
os.register_at_fork(after_in_child=watcher.forget)
