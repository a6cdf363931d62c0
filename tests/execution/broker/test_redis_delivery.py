import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from celery import current_app
from kombu.transport import redis

from punctual.execution.broker.messages import RUN, SETTLE
from punctual.execution.broker.redis import UnrecordedQoS, keep_in_memory
from punctual.testing import Harness

pytestmark = [pytest.mark.req("OCC-7", "EXE-9"), pytest.mark.usefixtures("queue", "on_redis")]

OTHER = "shop.report"


def send(*names: str) -> None:
    for number, name in enumerate(names):
        current_app.send_task(name, args=([str(UUID(int=number))],), queue="default")


class Taker:
    """A worker's channel, driven by the test."""

    def __init__(self, channel: Any) -> None:
        self.channel, self.client = channel, channel.client

    def take(self) -> Any:
        return self.channel.basic_get("default")

    def consume(self, prefetch: int) -> None:
        self.channel.basic_qos(0, prefetch, False)  # noqa: FBT003 - as AMQP has it

    def recorded(self) -> list[str]:
        kept = self.client.hvals("unacked")
        return [json.loads(text)[0]["headers"]["task"] for text in kept]

    def waiting(self) -> list[str]:
        """The task names in the queue, the next first."""
        return [json.loads(text)["headers"]["task"] for text in self.client.lrange("default", 0, -1)][::-1]


@contextmanager
def taker() -> Iterator[Taker]:
    with current_app.connection_for_read() as connection:
        channel = connection.channel()
        keep_in_memory(channel)
        yield Taker(channel)


@pytest.mark.parametrize("name", [RUN, SETTLE])
def test_redis_records_no_message_of_ours(name: str) -> None:
    send(name)
    with taker() as worker:
        message = worker.take()
        assert (worker.recorded(), worker.waiting()) == ([], [])
        message.ack()
        assert (worker.recorded(), worker.waiting()) == ([], [])


def test_redis_records_messages_of_other_tasks_until_they_are_acknowledged() -> None:
    send(OTHER)
    with taker() as worker:
        message = worker.take()
        assert worker.recorded() == [OTHER]
        message.ack()
        assert (worker.recorded(), worker.waiting()) == ([], [])


def test_our_messages_count_towards_the_prefetch_limit() -> None:
    send(RUN, RUN)
    with taker() as worker:
        worker.consume(prefetch=1)
        message = worker.take()
        assert not worker.channel.qos.can_consume()
        message.ack()
        assert worker.channel.qos.can_consume()


def test_other_channels_of_the_process_stay_as_they_are() -> None:
    with taker() as worker, current_app.connection_for_read() as other:
        assert type(worker.channel.qos) is UnrecordedQoS
        channel: Any = other.default_channel
        assert type(channel.qos) is redis.QoS


def test_a_channel_keeps_the_prefetch_limit_it_has() -> None:
    with current_app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        channel.basic_qos(0, 7, False)  # noqa: FBT003 - as AMQP has it
        keep_in_memory(channel)
        assert channel.qos.prefetch_count == 7


@pytest.mark.parametrize("name", [RUN, OTHER])
def test_a_rejected_message_is_requeued_last_or_dropped(name: str) -> None:
    send(name, SETTLE)
    with taker() as worker:
        worker.take().reject(requeue=True)
        assert worker.waiting() == [SETTLE, name]
        assert worker.recorded() == []
        for _ in range(2):
            worker.take().reject()
        assert (worker.recorded(), worker.waiting()) == ([], [])


def test_a_closing_channel_gives_back_unacknowledged_messages() -> None:
    send(RUN, OTHER, SETTLE, RUN)
    with taker() as worker:
        taken = [worker.take() for _ in range(4)]
        taken[0].ack()
        worker.channel.qos.restore_unacked_once()
        assert sorted(worker.waiting()) == sorted([OTHER, SETTLE, RUN])
        assert worker.client.zcard("unacked_index") == 0
        assert worker.recorded() == []


def test_a_message_that_was_given_back_is_the_same_message(queue: Harness) -> None:
    send(RUN)
    with taker() as worker:
        worker.take().reject(requeue=True)
    assert queue.take() == (RUN, [str(UUID(int=0))])


@pytest.mark.parametrize("name", [RUN, OTHER])
def test_a_connection_that_is_gone_does_not_end_the_worker(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    send(name, name)
    with current_app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        keep_in_memory(channel)
        first, second = channel.basic_get("default"), channel.basic_get("default")
        channel._disconnect_pools()
        channel.connection.client = None  # as kombu leaves it when the broker closes the connection
        channel.qos.restore_unacked_once()
        assert "messages.not_returned count=2 error=AttributeError" in caplog.text
        first.ack()  # its task has ended meanwhile
        second.reject(requeue=True)
        channel.connection.client = connection
    with taker() as worker:
        recorded = worker.recorded()
        worker.client.delete("unacked", "unacked_index")
    assert recorded == ([OTHER] * 2 if name == OTHER else []), "kombu delivers messages of other tasks again"
