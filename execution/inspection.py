"""What a worker answers when asked about itself → the same without passwords (OPS-7).

`celery inspect` and Flower ask. Celery hides the broker's password where a field of that name holds it, but
not in the address of a socket, nor in those of other brokers it may turn to.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from celery.worker.control import Panel

from jobs.secrecy import blotted

Answer = Callable[..., Any]


def install() -> None:
    for name, answer in Panel.data.items():
        if not hasattr(answer, "__wrapped__"):
            Panel.data[name] = discreet(answer)


def discreet(answer: Answer) -> Answer:
    @wraps(answer)
    def answered(*args: Any, **kwargs: Any) -> Any:
        return blotted(answer(*args, **kwargs))

    return answered
