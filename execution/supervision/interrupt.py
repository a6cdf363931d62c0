"""Turn the supervisor's signal into an exception inside the function that has to stop.

The exception is raised only while a function runs, and only in the attempt that the supervisor means: the
signal may arrive when that attempt is over. A coroutine is canceled instead: an exception raised at an
arbitrary place would break its event loop.
"""

import asyncio
import signal
from threading import current_thread, main_thread
from types import FrameType

from celery.exceptions import SoftTimeLimitExceeded

from punctual.execution.supervision.board import INTERRUPT_SIGNAL, StopCause, board
from punctual.jobs.errors import Cancel, HandBack


class Interruption:
    """Reaches the function that runs in this process's main thread."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.task: asyncio.Task[object] | None = None

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        cause = board.own_slot().interruption
        if cause is StopCause.NONE:
            return
        if self.loop is not None and self.task is not None:
            self.loop.call_soon_threadsafe(self.task.cancel)
        else:
            raise exception_for(cause)


def exception_for(cause: StopCause) -> Exception:
    match cause:
        case StopCause.CANCELED:
            return Cancel("canceled while it ran")
        case StopCause.STOPPING:
            return HandBack("its worker was told to stop")
    return SoftTimeLimitExceeded("it took longer than its task_timeout")


interruption = Interruption()


def install() -> None:
    """In a process whose main thread runs functions: a child of the pool, or a solo worker."""
    if current_thread() is main_thread():
        signal.signal(INTERRUPT_SIGNAL, interruption.handle)
