"""A queue's name → how many messages wait in it, and the runs of those that come next."""

import json
from base64 import b64decode
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from uuid import UUID

from celery import current_app
from kombu.exceptions import ChannelError

from execution.dispatch import BROKER_ERRORS
from execution.messages import RUN

Answer = TypeVar("Answer")
SEVERAL = 10


def backlog(queue: str) -> int | None:
    """None while the broker cannot say."""
    try:
        return _asked(lambda channel: int(channel.queue_declare(queue, passive=True).message_count))
    except ChannelError:
        return 0  # nobody has declared it: it holds nothing


def next_runs(queue: str) -> set[UUID]:
    """Of the messages that are given out next, as far as the broker shows them and they are ours."""
    return _asked(lambda channel: _runs(_next(channel, queue))) or set()


def _next(channel: Any, queue: str) -> list[bytes]:
    """In Redis a queue is a list, taken from its end. Several: one of them may be there for a second time."""
    client = getattr(channel, "client", None)
    return client.lrange(queue, -SEVERAL, -1) if client else []


def _asked(question: Callable[[Any], Answer]) -> Answer | None:
    try:
        with current_app.connection_for_read() as broker:
            broker.ensure_connection(max_retries=1, interval_start=0)
            return question(broker.default_channel)
    except ChannelError:
        raise
    except BROKER_ERRORS:
        return None


def _runs(texts: Iterable[bytes]) -> set[UUID]:
    messages = [json.loads(text) for text in texts]
    bodies = [b64decode(item["body"]) for item in messages if item["headers"].get("task") == RUN]
    return {UUID(id_) for body in bodies for id_ in json.loads(body)[0][0]}
