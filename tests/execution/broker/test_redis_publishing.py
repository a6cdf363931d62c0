import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from celery import current_app, signals
from kombu import Exchange, Queue

from punctual.execution.broker import redis
from punctual.execution.broker.bundling import Bundle
from punctual.execution.broker.messages import publish_each
from punctual.execution.broker.redis import Redis
from punctual.occurrences.outbox import Ready
from tests.execution.broker.test_messages import run
from tests.execution.conftest import configured
from tests.harness import Harness

pytestmark = pytest.mark.req("OCC-7", "OPS-5")

NAMES = ("nightly", '100 % "quoted" \\ <<id>>', "tägliche Übersicht 日報")


def runs(count: int = redis.MIN_ENCODED) -> list[Ready]:
    """Runs with different names, timeouts and attempts."""
    return [
        run(
            number % 3,
            run_id=str(UUID(int=number)),
            job=NAMES[number % 3],
            task_timeout=("5m", "90s")[number % 2],
        )
        for number in range(count)
    ]


def bundles() -> list[Bundle]:
    alone = [(item,) for item in runs()]
    return [*alone, tuple(runs(4)[::2])]


def stored(queue: str = "default") -> list[bytes]:
    """Remove the messages from the queue's list and return them, oldest first."""
    with current_app.connection_for_read() as connection:
        client = connection.default_channel.client  # type: ignore[attr-defined] # a Redis channel
        texts: list[bytes] = client.lrange(queue, 0, -1)
        client.delete(queue)
    return texts[::-1]


def untagged(text: bytes) -> bytes:
    """Replace the random delivery tag."""
    tag = json.loads(text)["properties"]["delivery_tag"]
    assert UUID(tag).version == 4
    return text.replace(tag.encode(), b"tag")


@contextmanager
def producing() -> Iterator[Any]:
    with current_app.producer_or_acquire() as producer:
        yield producer


def through_kombu(sent: list[Bundle]) -> list[bytes]:
    with producing() as producer:
        publish_each(sent, producer)
    return [untagged(text) for text in stored()]


@pytest.mark.usefixtures("queue", "on_redis")
def test_pushed_messages_equal_kombu_s_byte_for_byte() -> None:
    with producing() as producer, producer.batch():
        Redis().publish(bundles(), producer)
    posted = stored()
    assert [untagged(text) for text in posted] == through_kombu(bundles())
    assert len({json.loads(text)["properties"]["delivery_tag"] for text in posted}) == len(posted)


@pytest.mark.usefixtures("on_redis")
def test_a_worker_reads_pushed_messages(queue: Harness) -> None:
    with producing() as producer:
        Redis().publish([(item,) for item in runs()], producer)
    taken = [queue.take() for _ in runs()]
    assert taken == [("punctual.run", [item.run_id]) for item in runs()]


@pytest.mark.usefixtures("queue", "on_redis")
def test_receivers_of_publish_signals_are_called_for_every_message() -> None:
    heard: list[str] = []

    def listener(headers: dict[str, Any], **_kwargs: Any) -> None:
        heard.append(headers["id"])

    signals.before_task_publish.connect(listener)
    try:
        with producing() as producer:
            assert not redis.can_push(producer)
            Redis().publish(bundles(), producer)
    finally:
        signals.before_task_publish.disconnect(listener)
    assert len(heard) == len(bundles()) == len(stored())


@pytest.mark.usefixtures("queue", "on_redis")
@pytest.mark.parametrize(
    "setting",
    [{"task_compression": "gzip"}, {"task_protocol": 1}, {"task_send_sent_event": True}],
)
def test_settings_that_change_the_encoding_use_kombu(setting: dict[str, Any]) -> None:
    with configured(**setting), producing() as producer:
        assert not redis.can_push(producer)


@pytest.mark.parametrize(
    ("queue", "plain"),
    [
        (Queue("a", Exchange("a", type="direct"), routing_key="a"), True),
        (Queue("a", Exchange("a", type="topic"), routing_key="a"), False),
        (Queue("a", Exchange("a", type="fanout")), False),
        (Queue("a", Exchange("a"), routing_key="a", expires=60.0), False),
        (Queue("a", Exchange("a"), routing_key="a", queue_arguments={"x-max-priority": 3}), False),
    ],
)
def test_only_a_queue_that_is_a_plain_list_is_pushed_to(queue: Queue, plain: bool) -> None:  # noqa: FBT001
    assert redis.is_plain_list(queue) is plain


@pytest.mark.usefixtures("queue", "on_redis")
def test_a_queue_that_is_more_than_a_list_goes_through_kombu() -> None:
    odd = Queue("odd", Exchange("odd", type="topic"), routing_key="odd")
    current_app.amqp.queues.add(odd)
    mixed = [(item._replace(queue=("default", "odd")[number % 2]),) for number, item in enumerate(runs())]
    try:
        assert list(redis.encode(mixed)) == ["default"]
        with producing() as producer:
            Redis().publish(mixed, producer)
        assert len(stored()) == len(mixed[::2])
    finally:
        current_app.amqp.queues.pop("odd")
