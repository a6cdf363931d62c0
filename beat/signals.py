"""SIGTERM and SIGINT during a tick → heard after it: a beat finishes what it has begun (EXE-9)."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def deferred() -> Iterator[None]:
    """Hold the signals back for the length of a tick, then give them to whom they belong."""
    if threading.current_thread() is not threading.main_thread():
        yield  # an embedded beat: signals go to the main thread, which is not ours to hold
        return
    heard: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        heard.append(number)

    kept = {number: signal.signal(number, remember) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        if heard:
            signal.raise_signal(heard[0])
