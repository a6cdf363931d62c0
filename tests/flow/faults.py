"""A step number → the process dies there: at that SQL statement, or at that word to the broker.

What a process had not committed is rolled back, as the server does when it loses the connection. What
it had said to the broker was said. A word to the broker counts twice: death before it, and after it.
Only what changes something is a step, commits included: death before a mere question, or between two
of them, leaves behind what death before the next step does.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from celery import current_app
from django.db import connection
from redis.connection import AbstractConnection

from tests.execution.conftest import forget_connections

QUESTIONS = ("SELECT", "SAVEPOINT", "ROLLBACK")  # and not RELEASE SAVEPOINT: inside a test's own, a commit
WORDS = (b"LPUSH", b"RPUSH", b"ZADD", b"INCR", b"SET")  # messages, and what a chord counts with
Execute = Callable[[str, Any, bool, dict[str, Any]], Any]


class Crash(BaseException):
    """Not an Exception: nobody handles the death of his own process."""


@dataclass
class Steps:
    """Counts them, and ends the process at one."""

    fatal: int
    taken: list[str] = field(default_factory=list)
    crashed: bool = False

    def step(self, what: str) -> None:
        if self.crashed:
            return  # what the dying process rolls back is the server's doing
        self.taken.append(what)
        if len(self.taken) == self.fatal:
            self.crashed = True
            raise Crash(what)

    def statement(self, execute: Execute, sql: str, params: Any, many: Any, context: Any) -> Any:
        if not sql.lstrip().startswith(QUESTIONS):
            self.step(sql)
        return execute(sql, params, many, context)


@contextmanager
def dying_at(number: int) -> Iterator[Steps]:
    """Run the body until its step `number`, or to its end when it has fewer."""
    steps = Steps(number)
    said: Any = AbstractConnection.send_packed_command

    def say(self: Any, command: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(word in bytes(part) for part in command for word in WORDS):
            return said(self, command, *args, **kwargs)
        steps.step("before a word to the broker")
        answer = said(self, command, *args, **kwargs)
        steps.step("after a word to the broker")
        return answer

    with pytest.MonkeyPatch.context() as patch, suppress(Crash):
        patch.setattr(AbstractConnection, "send_packed_command", say)
        with connection.execute_wrapper(steps.statement):
            yield steps
    if steps.crashed:
        forget_connections(current_app)  # they died with the process, in the middle of a word perhaps
