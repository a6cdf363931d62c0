"""Ask the broker how long a queue is, and which runs it delivers next."""

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from celery import current_app
from kombu.exceptions import ChannelError

from punctual.execution.broker.brokers import broker_of
from punctual.execution.broker.errors import BROKER_ERRORS

Answer = TypeVar("Answer")


def backlog(queue: str) -> int | None:
    """The number of messages in the queue; None while the broker does not answer."""
    try:
        return _ask(lambda channel: int(channel.queue_declare(queue, passive=True).message_count))
    except ChannelError:
        return 0  # the queue was never declared: it holds nothing


def next_runs(queue: str) -> set[UUID]:
    """Runs of our messages that are delivered next, as far as the broker shows them."""
    return (
        _ask(lambda channel: broker_of(str(current_app.conf.broker_url)).next_runs(channel, queue)) or set()
    )


def _ask(question: Callable[[Any], Answer]) -> Answer | None:
    try:
        with current_app.connection_for_read() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0)
            return question(connection.default_channel)
    except ChannelError:
        raise
    except BROKER_ERRORS:
        return None
