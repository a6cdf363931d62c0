"""Take the messages that a tick sent from the broker, and hand them to the Celery task as a worker would."""

# ruff: noqa: PLC0415 -- Django's models can be imported once its settings are complete
from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty
from typing import Any

RUN = "punctual.run"


def prepare() -> None:
    """Write the declared jobs, and prepare this process as a worker prepares before its pool forks."""
    from celery import current_app, signals

    from punctual.occurrences.models import Pool

    current_app.loader.import_default_modules()
    current_app.finalize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Celery's own receiver misses the worker
        # Ours imports the jobs and freezes the garbage collector.
        signals.worker_init.send(sender=type("Worker", (), {"app": current_app, "pool_cls": "prefork"}))
    Pool.objects.update_or_create(name="benchmark", defaults={"size": 10**6})


def received() -> Iterator[list[Any]]:
    """The arguments of every message for runs in the queue, which is empty afterwards."""
    from celery import current_app

    with current_app.connection_for_read() as broker:
        queue: Any = current_app.amqp.queues["default"]
        simple = broker.SimpleQueue(queue)
        while True:
            try:
                message = simple.get_nowait()
            except Empty:
                return
            message.ack()
            if message.headers["task"] == RUN:
                yield message.payload[0]


def deliver(*args: Any) -> None:
    """Run the body of the task `punctual.run` with the arguments of a message, as a worker's process does."""
    from celery import current_app
    from celery.exceptions import Retry

    task: Any = current_app.tasks[RUN]
    task.push_request(called_directly=False, hostname="road")
    try:
        # What the body raises for a failed run is for Celery; the result is in the ledger.
        with suppress(Retry):
            task.run(*args)
    finally:
        task.pop_request()
