"""Why a server cannot be reached is one line, without its address or a secret."""

from typing import Any

import pytest
from amqp.exceptions import AccessRefused
from django.db import OperationalError as DatabaseError
from kombu.exceptions import OperationalError
from redis import exceptions as redis

from punctual.console.status.outage_reasons import outage_reason

REFUSED = "refuses the user or the password"
SILENT = "does not answer at its address"


def chained(error: Exception) -> OperationalError:
    """As kombu raises it."""
    outer = OperationalError(str(error))
    outer.__cause__ = error
    return outer


@pytest.mark.req("OPS-3")
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DatabaseError('FATAL:  password authentication failed for user "hunter2"'), REFUSED),
        (DatabaseError("fe_sendauth: no password supplied"), REFUSED),
        (DatabaseError('FATAL:  role "hunter2" does not exist'), REFUSED),
        (
            DatabaseError('connection to server at "hunter2", port 5433 failed: Connection refused'),
            SILENT,
        ),
        (DatabaseError('could not translate host name "hunter2"'), "has a host name that is unknown"),
        (DatabaseError('FATAL:  database "hunter2" does not exist'), "answers, but has no such database"),
        (DatabaseError("FATAL:  sorry, too many clients already"), "has no connection left"),
        (DatabaseError("FATAL:  the database system is starting up"), "is starting or stopping"),
        (chained(redis.AuthenticationError("invalid username-password pair")), REFUSED),
        (chained(redis.AuthenticationError("Authentication required.")), REFUSED),
        (chained(redis.ConnectionError("Error 111 connecting to hunter2:6380. Connection refused.")), SILENT),
        (chained(redis.TimeoutError("Timeout connecting to server")), "does not answer in time"),
        (AccessRefused("(403) ACCESS_REFUSED - Login was refused"), REFUSED),
        (chained(ConnectionRefusedError(111, "Connection refused")), SILENT),
        (ValueError("hunter2"), "unreachable (ValueError)"),
    ],
)
def test_a_wrong_password_and_a_wrong_port_are_different_lines(error: Any, reason: str) -> None:
    assert outage_reason(error) == reason
