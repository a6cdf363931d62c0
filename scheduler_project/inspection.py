"""Redact passwords in what a worker answers to `celery inspect` and Flower (OPS-7).

Celery hides the broker's password in the field of that name, but not in the address of a socket, and not in
the addresses of failover brokers.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from celery.worker.control import Panel

from punctual.jobs.redaction import redact_values

Answer = Callable[..., Any]


def install(**_: Any) -> None:
    """Receiver of worker_init: by then every answer is registered."""
    for name, answer in Panel.data.items():
        if not hasattr(answer, "__wrapped__"):
            Panel.data[name] = redact_answer(answer)


def redact_answer(answer: Answer) -> Answer:
    @wraps(answer)
    def redacted(*args: Any, **kwargs: Any) -> Any:
        return redact_values(answer(*args, **kwargs))

    return redacted
