"""Say why a database or broker cannot be reached, without its address, user or password. Pure."""

import re

# The first pattern that matches decides. The texts are those of libpq, PostgreSQL, redis-py and py-amqp.
REASONS = (
    (
        r"password|authentication|NOAUTH|WRONGPASS|ACCESS.?REFUSED|invalid username",
        "refuses the user or the password",
    ),
    (r"role .* does not exist", "refuses the user or the password"),
    (r"database .* does not exist", "answers, but has no such database"),
    (
        r"too many (clients|connections)|remaining connection slots|max number of clients",
        "has no connection left",
    ),
    (r"starting up|shutting down|recovery mode", "is starting or stopping"),
    (r"translate host name|name or service|getaddrinfo|nodename", "has a host name that is unknown"),
    (r"timeout|timed out", "does not answer in time"),
    (r"refused|no such file|unreachable|no route|server closed", "does not answer at its address"),
)


def outage_reason(error: BaseException) -> str:
    """One line; the type of the error if its text says nothing that is known."""
    text = " ".join(_texts(error))
    for pattern, reason in REASONS:
        if re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            return reason
    return f"unreachable ({type(error).__name__})"


def _texts(error: BaseException | None) -> list[str]:
    """The error and what caused it, each with its type."""
    if error is None:
        return []
    return [f"{type(error).__name__}: {error}", *_texts(error.__cause__ or error.__context__)]
