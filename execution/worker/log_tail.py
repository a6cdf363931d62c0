"""Keep the last lines that a function logs, with its attempt.

Lines come from the loggers below `punctual.task`, of which `ctx.logger` is one, at their configured level. A
function that logs nothing costs nothing. The lines are also written to the process's slot, so that the
supervisor can store those of a function whose process was killed.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property

from punctual.execution.supervision.board import MAX_LOG_BYTES, board
from punctual.execution.worker.failure import storable_text

LOGGER = "punctual.task"
Ids = Mapping[str, object]
MAX_LINES = 200
MAX_LINE_LENGTH = 1_000
FORMAT = logging.Formatter("%(asctime)s %(levelname)s %(message)s")


@dataclass
class LogLines:
    """The newest lines, within bounds, and the ids of the run, computed when the first line is logged."""

    read_ids: Callable[[], Ids] = dict
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_LINES))

    @cached_property
    def ids(self) -> Ids:
        return self.read_ids()

    def add(self, text: str) -> None:
        self.lines.extend(line[:MAX_LINE_LENGTH] for line in text.splitlines())

    def text(self) -> str:
        """As many of the last lines as fit; whole lines only."""
        tail: deque[str] = deque()
        left = MAX_LOG_BYTES
        for line in reversed(self.lines):
            left -= len(line.encode(errors="replace")) + 1
            if left < 0:
                break
            tail.appendleft(line)
        return "\n".join(tail)


# Of the function that runs in this context.
current_lines: ContextVar[LogLines | None] = ContextVar("lines", default=None)


class TailHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        lines = current_lines.get()
        if lines is None:
            return  # logged by a thread that the function left behind, or by a test
        try:
            lines.add(storable_text(FORMAT.format(record)))
            board.own_slot().log(lines.text().encode(errors="replace"))
        except Exception:  # noqa: BLE001 - arguments of a log call are user code
            self.handleError(record)


class RunIdsFilter(logging.Filter):
    """On a handler: add the run's ids to every record that is logged while its function runs."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "ids") and not hasattr(record, "event"):
            lines = current_lines.get()
            if lines is not None:
                record.ids = lines.ids
        return True


def install() -> None:
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(handler, TailHandler) for handler in logger.handlers):
        logger.addHandler(TailHandler())
