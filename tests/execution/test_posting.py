import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from celery import current_app, signals
from kombu import Exchange, Queue

from execution import messages, posting
from execution.bundling import Bundle
from execution.messages import publish_runs
from occurrences.ready import Ready
from tests.execution.conftest import configured
from tests.execution.test_messages import run
from tests.harness import Harness

pytestmark = pytest.mark.req("OCC-7", "OPS-5")

NAMES = ("nightly", '100 % "quoted" \\ <<id>>', "tägliche Übersicht 日報")


def runs(count: int = messages.MANY) -> list[Ready]:
    """Of several names, timeouts and attempts."""
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
    """The texts in Redis's list, oldest first; taken off it."""
    with current_app.connection_for_read() as connection:
        client = connection.default_channel.client  # type: ignore[attr-defined] # a Redis channel
        texts: list[bytes] = client.lrange(queue, 0, -1)
        client.delete(queue)
    return texts[::-1]


def untagged(text: bytes) -> bytes:
    """Without the random name of the delivery."""
    tag = json.loads(text)["properties"]["delivery_tag"]
    assert UUID(tag).version == 4
    return text.replace(tag.encode(), b"tag")


@contextmanager
def producing() -> Iterator[Any]:
    with current_app.producer_or_acquire() as producer:
        yield producer


def through_kombu(sent: list[Bundle]) -> list[bytes]:
    with producing() as producer:
        messages._published(sent, producer)
    return [untagged(text) for text in stored()]


@pytest.mark.usefixtures("queue", "on_redis")
def test_what_is_stored_is_what_kombu_would_have_stored_to_the_byte() -> None:
    with producing() as producer, producer.batch():
        publish_runs(bundles(), producer)
    posted = stored()
    assert [untagged(text) for text in posted] == through_kombu(bundles())
    assert len({json.loads(text)["properties"]["delivery_tag"] for text in posted}) == len(posted)


@pytest.mark.usefixtures("on_redis")
def test_a_worker_reads_them(queue: Harness) -> None:
    with producing() as producer:
        publish_runs([(item,) for item in runs()], producer)
    taken = [queue.take() for _ in runs()]
    assert taken == [("punctual.run", [item.run_id]) for item in runs()]


@pytest.mark.usefixtures("queue", "on_redis")
def test_who_listens_to_messages_hears_of_each() -> None:
    heard: list[str] = []

    def listener(headers: dict[str, Any], **_kwargs: Any) -> None:
        heard.append(headers["id"])

    signals.before_task_publish.connect(listener)
    try:
        with producing() as producer:
            assert not posting.usable(producer)
            publish_runs(bundles(), producer)
    finally:
        signals.before_task_publish.disconnect(listener)
    assert len(heard) == len(bundles()) == len(stored())


@pytest.mark.usefixtures("queue", "on_redis")
@pytest.mark.parametrize(
    "setting",
    [{"task_compression": "gzip"}, {"task_protocol": 1}, {"task_send_sent_event": True}],
)
def test_what_would_be_stored_otherwise_goes_through_kombu(setting: dict[str, Any]) -> None:
    with configured(**setting), producing() as producer:
        assert not posting.usable(producer)


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
def test_only_a_queue_that_is_a_list_is_written_to(queue: Queue, plain: bool) -> None:  # noqa: FBT001
    assert posting.plain(queue) is plain


@pytest.mark.usefixtures("queue", "on_redis")
def test_a_queue_that_is_more_than_a_list_goes_through_kombu() -> None:
    odd = Queue("odd", Exchange("odd", type="topic"), routing_key="odd")
    current_app.amqp.queues.add(odd)
    mixed = [(item._replace(queue=("default", "odd")[number % 2]),) for number, item in enumerate(runs())]
    try:
        assert list(messages.written(mixed)) == ["default"]
        with producing() as producer:
            publish_runs(mixed, producer)
        assert len(stored()) == len(mixed[::2])
    finally:
        current_app.amqp.queues.pop("odd")
