"""Celery's life-cycle signals → a supervisor in each worker, and a handler in each process of its pool."""

import gc
import os
from contextlib import suppress
from threading import Event, Thread
from time import monotonic
from typing import Any

from celery import signals
from django.db import DatabaseError, connection

from execution import inspection, interrupt, logtail, prefetched, unbooked
from execution.ahead import Ahead
from execution.limits import limits
from execution.presence import Presence, sign_out
from execution.slots import board
from execution.supervisor import Supervisor
from jobs.clock import database_now
from jobs.events import Event as Events
from jobs.events import emit

PASS_INTERVAL = 0.1
LAST_PASS_TIMEOUT = 10.0


class Watch(Thread):
    """The supervisor's thread: one pass after the other, whatever goes wrong in one of them.

    `worker` is the name it shows that it is on duty under; a process that watches only itself has none.
    """

    def __init__(self, worker: str = "") -> None:
        super().__init__(name="punctual-supervisor", daemon=True)
        self.presence = Presence(worker) if worker else None
        self.supervisor = Supervisor(board, limits(), ahead=Ahead(prefetched.waiting))
        self.done = Event()

    def run(self) -> None:
        while not self.done.wait(PASS_INTERVAL):
            self._pass()
        self._pass()  # what ended with the pool
        if self.presence is not None:
            with suppress(DatabaseError):  # then its row grows old instead
                sign_out(self.presence.name)
        connection.close()

    def end(self) -> None:
        self.done.set()
        self.join(LAST_PASS_TIMEOUT)

    def _pass(self) -> None:
        try:
            self.supervisor.run_once(at=monotonic(), clock=database_now)
            if self.presence is not None:
                self.presence.run_once(at=monotonic(), clock=database_now)
        except Exception as error:  # noqa: BLE001 - without it nobody renews: it must outlive anything
            # Nothing is lost: what is owed stays owed, and a lease outlives a short absence.
            emit(Events.SUPERVISOR_TROUBLED, error=repr(error))
            connection.close()
        if connection.vendor == "sqlite":
            connection.close()  # a file opened here must not be inherited by the next process of the pool


watch: Watch | None = None


def connect() -> None:
    logtail.install()
    signals.worker_init.connect(announce)
    signals.worker_ready.connect(start)
    signals.worker_process_init.connect(enter)
    signals.worker_shutting_down.connect(stop)
    signals.worker_shutdown.connect(end)


def announce(**_: Any) -> None:
    """Before the pool forks: its processes shall know that they are watched."""
    board.head(supervisor=os.getpid())
    # What is loaded by now stays: no collection looks through it, and its memory stays shared.
    gc.collect()
    gc.freeze()
    interrupt.install()  # a solo worker runs functions in this very thread
    inspection.install()
    unbooked.install()


def start(sender: Any = None, **_: Any) -> None:
    """Once the pool has forked: a thread would not come along."""
    global watch  # noqa: PLW0603 - one worker is one process, and Celery's signals carry no state of ours
    watch = Watch(getattr(sender, "hostname", ""))
    watch.start()


def enter(**_: Any) -> None:
    interrupt.install()
    if board.supervisor != os.getppid():
        # Not forked but started anew: the worker cannot see this memory, so this process watches itself.
        start()


def stop(**_: Any) -> None:
    """Called from a signal handler: two flags, nothing that could wait."""
    board.head(supervisor=board.supervisor, stopping=True)
    if watch is not None:
        watch.supervisor.stopping = True


def end(**_: Any) -> None:
    if watch is not None:
        watch.end()
