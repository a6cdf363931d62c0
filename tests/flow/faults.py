"""Let a process die at its n-th step: at an SQL statement, or before or after a command to the broker.

What the process had not committed is rolled back, as the server does when it loses the connection; commands
that it had sent to the broker stay sent. Only writes and commits are steps: a death before a read has the
same effect as a death before the next write.
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

# RELEASE SAVEPOINT is a step: inside the transaction of a test it is a commit.
READS = ("SELECT", "SAVEPOINT", "ROLLBACK")
COMMANDS = (b"LPUSH", b"RPUSH", b"ZADD", b"INCR", b"SET")  # messages and the counters of chords
Execute = Callable[[str, Any, bool, dict[str, Any]], Any]


class Crash(BaseException):
    """Not an Exception: no handler in the code may catch it."""


@dataclass
class Steps:
    """Count the steps and let the process die at step `fatal`."""

    fatal: int
    taken: list[str] = field(default_factory=list)
    crashed: bool = False

    def step(self, what: str) -> None:
        if self.crashed:
            return  # the server does the rollback
        self.taken.append(what)
        if len(self.taken) == self.fatal:
            self.crashed = True
            raise Crash(what)

    def statement(self, execute: Execute, sql: str, params: Any, many: Any, context: Any) -> Any:
        if not sql.lstrip().startswith(READS):
            self.step(sql)
        return execute(sql, params, many, context)


@contextmanager
def dying_at(number: int) -> Iterator[Steps]:
    """Run the body until its step `number`, or to its end when it has fewer."""
    steps = Steps(number)
    send: Any = AbstractConnection.send_packed_command

    def send_or_die(self: Any, command: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(name in bytes(part) for part in command for name in COMMANDS):
            return send(self, command, *args, **kwargs)
        steps.step("before a command to the broker")
        answer = send(self, command, *args, **kwargs)
        steps.step("after a command to the broker")
        return answer

    with pytest.MonkeyPatch.context() as patch, suppress(Crash):
        patch.setattr(AbstractConnection, "send_packed_command", send_or_die)
        with connection.execute_wrapper(steps.statement):
            yield steps
    if steps.crashed:
        forget_connections(current_app)  # they died with the process, perhaps in the middle of a command
