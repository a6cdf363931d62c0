"""The supervisor's signal → an exception inside the function that has outstayed its time.

Raised only while a function runs, and only if it is the very attempt the supervisor means: the signal
may come late, when that attempt is over, and then nobody is disturbed. A coroutine is canceled instead:
an exception out of nowhere would leave its event loop in pieces.
"""

import asyncio
import signal
from threading import current_thread, main_thread
from types import FrameType

from celery.exceptions import SoftTimeLimitExceeded

from execution.slots import INTERRUPT_SIGNAL, Why, board
from jobs.errors import Cancel, HandBack


class Interruption:
    """How the function that runs in this process's main thread can be reached."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.task: asyncio.Task[object] | None = None

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        why = board.mine().interruption
        if why is Why.NONE:
            return
        if self.loop is not None and self.task is not None:
            self.loop.call_soon_threadsafe(self.task.cancel)
        else:
            raise exception(why)


def exception(why: Why) -> Exception:
    match why:
        case Why.CANCELED:
            return Cancel("canceled while it ran")
        case Why.STOPPING:
            return HandBack("its worker was told to stop")
    return SoftTimeLimitExceeded("it took longer than its task_timeout")


interruption = Interruption()


def install() -> None:
    """In a process whose main thread runs functions: a pool's child, or a solo worker."""
    if current_thread() is main_thread():
        signal.signal(INTERRUPT_SIGNAL, interruption.handle)
