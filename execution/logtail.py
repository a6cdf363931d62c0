"""What a function logs → the last lines of it, kept with its attempt.

Caught are the loggers below `punctual.task`, of which `ctx.logger` is one, at the level they let through.
A function that logs nothing costs nothing. The same lines stand in the process's slot, so that those of a
function that had to be killed are not lost with it.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property

from execution.slots import LONGEST_LOG, board
from jobs.secrecy import without_secrets

LOGGER = "punctual.task"
Ids = Mapping[str, object]
MOST_LINES = 200
LONGEST_LINE = 1_000
FORMAT = logging.Formatter("%(asctime)s %(levelname)s %(message)s")


class Lines:
    """The newest lines, within bounds, and whose they are: asked for when the first is logged."""

    def __init__(self, whose: Callable[[], Ids]) -> None:
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._whose = whose

    @cached_property
    def ids(self) -> Ids:
        return self._whose()

    def add(self, text: str) -> None:
        self._lines.extend(line[:LONGEST_LINE] for line in text.splitlines())

    def text(self) -> str:
        """From the end backwards as far as the bytes reach; whole lines only."""
        kept: deque[str] = deque()
        left = LONGEST_LOG
        for line in reversed(self._lines):
            left -= len(line.encode(errors="replace")) + 1
            if left < 0:
                break
            kept.appendleft(line)
        return "\n".join(kept)


_current: ContextVar[Lines | None] = ContextVar("lines", default=None)


class Tail(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        lines = _current.get()
        if lines is None:
            return  # a thread that the function left behind, or a test
        try:
            lines.add(without_secrets(FORMAT.format(record)))
            board.mine().log(lines.text().encode(errors="replace"))
        except Exception:  # noqa: BLE001 - the arguments of a log call are user code
            self.handleError(record)


class RunIds(logging.Filter):
    """On a handler: whatever is logged while a function runs, by whomever it calls, carries its run's ids."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "ids") and not hasattr(record, "event"):
            lines = _current.get()
            if lines is not None:
                record.ids = lines.ids
        return True


@contextmanager
def captured(whose: Callable[[], Ids] = dict) -> Iterator[Lines]:
    lines = Lines(whose)
    token = _current.set(lines)
    try:
        yield lines
    finally:
        _current.reset(token)


def install() -> None:
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(handler, Tail) for handler in logger.handlers):
        logger.addHandler(Tail())
