"""Restore what a function has changed in its process and what the worker itself depends on.

These are the standard streams, the handlers and the mask of signals, and timers. If a standard stream stayed
closed, the next connection would get its number, and every line printed would go to the database. A timer
would end the process in the middle of another run. Everything else that a function changes stays as it left
it, as with any Celery task: the working directory, the locale, the decimal context, and so on.

A function may also close every file, and with them the pipe between its process and the pool. Such a process
exits; the pool starts another, and the run is lost.
"""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

from celery import signals

STREAMS = (0, 1, 2)
COPIES_FROM = 64  # the number of the first copy; lower numbers are for files that functions open
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
# Celery stops a process with the first ones, the supervisor interrupts a function with SIGUSR2. Functions
# that start processes or write to pipes rely on the others.
HANDLED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGCHLD,
    signal.SIGPIPE,
)


# Without the conversion to enums, which takes longer than the rest.
get_handler: Callable[[int], Any] = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
set_mask: Callable[..., Any] = getattr(signal.pthread_sigmask, "__wrapped__", signal.pthread_sigmask)


@dataclass
class ProcessState:
    """The state of a pool process before its first function."""

    sentinel: tuple[int, os.stat_result]  # a file of ours that is open as long as the pipe to the pool is
    files: dict[int, os.stat_result]  # the open standard streams
    copies: dict[int, int]
    streams: tuple[Any, Any, Any]
    handlers: dict[int, Any]
    mask: set[int]


_saved: ProcessState | None = None


def save_process(**_: object) -> None:
    """Note the state of this process, which runs one function at a time, in its main thread.

    Connected to Celery's `task_prerun`: the pool installs its signal handlers after `worker_process_init`.
    """
    signals.task_prerun.disconnect(save_process)
    global _saved  # noqa: PLW0603 - it is about the process
    if _saved is not None or current_thread() is not main_thread():
        return
    files = {number: status for number in STREAMS if (status := _status(number))}
    with Path(os.devnull).open("rb") as nothing:
        sentinel = fcntl(nothing, F_DUPFD_CLOEXEC, COPIES_FROM)
    _saved = ProcessState(
        sentinel=(sentinel, os.fstat(sentinel)),
        files=files,
        copies={number: fcntl(number, F_DUPFD_CLOEXEC, COPIES_FROM) for number in files},
        streams=(sys.stdin, sys.stdout, sys.stderr),
        handlers={number: handler for number in HANDLED if (handler := get_handler(number)) is not None},
        mask=set_mask(signal.SIG_BLOCK, ()),
    )


def restore_process() -> None:
    """Called after every function: a few system calls, if nothing has changed."""
    if _saved is None:
        return
    for timer in TIMERS:
        signal.setitimer(timer, 0)
    for number, handler in _saved.handlers.items():
        if get_handler(number) != handler:
            signal.signal(number, handler)
    set_mask(signal.SIG_SETMASK, _saved.mask)
    sys.stdin, sys.stdout, sys.stderr = _saved.streams
    try:
        kept = os.path.samestat(os.fstat(_saved.sentinel[0]), _saved.sentinel[1])
        if kept and all(os.path.samestat(os.fstat(number), file) for number, file in _saved.files.items()):
            return
    except OSError:
        kept = _status(_saved.sentinel[0]) is not None
    if not kept:
        # So is the pipe to the pool, and the database's connection: the supervisor reports the run as lost.
        os._exit(1)
    for number, copy in _saved.copies.items():
        os.dup2(copy, number)


def _status(number: int) -> os.stat_result | None:
    try:
        return os.fstat(number)
    except OSError:
        return None
