import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from celery import current_app
from kombu.transport import redis

from execution import unbooked
from execution.messages import RUN, SETTLE
from jobs.testing import Harness

pytestmark = [pytest.mark.req("OCC-7", "EXE-9"), pytest.mark.usefixtures("queue", "on_redis")]

OTHER = "shop.report"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis.Channel, "QoS", redis.Channel.QoS)  # put back afterwards
    unbooked.install()


def send(*names: str) -> None:
    for number, name in enumerate(names):
        current_app.send_task(name, args=([str(UUID(int=number))],), queue="default")


class Taker:
    """A worker's channel, by hand."""

    def __init__(self, channel: Any) -> None:
        self.channel, self.client = channel, channel.client

    def take(self) -> Any:
        return self.channel.basic_get("default")

    def consume(self, prefetch: int) -> None:
        self.channel.basic_qos(0, prefetch, False)  # noqa: FBT003 - as AMQP has it

    def booked(self) -> list[str]:
        kept = self.client.hvals("unacked")
        return [json.loads(text)[0]["headers"]["task"] for text in kept]

    def waiting(self) -> list[str]:
        """The names in the queue, next first."""
        return [json.loads(text)["headers"]["task"] for text in self.client.lrange("default", 0, -1)][::-1]


@contextmanager
def taker() -> Iterator[Taker]:
    with current_app.connection_for_read() as connection:
        yield Taker(connection.channel())


@pytest.mark.parametrize("name", [RUN, SETTLE])
def test_redis_keeps_no_book_of_ours(name: str) -> None:
    send(name)
    with taker() as worker:
        message = worker.take()
        assert (worker.booked(), worker.waiting()) == ([], [])
        message.ack()
        assert (worker.booked(), worker.waiting()) == ([], [])


def test_of_others_it_does_until_they_are_acknowledged() -> None:
    send(OTHER)
    with taker() as worker:
        message = worker.take()
        assert worker.booked() == [OTHER]
        message.ack()
        assert (worker.booked(), worker.waiting()) == ([], [])


def test_ours_count_for_how_many_a_worker_takes() -> None:
    send(RUN, RUN)
    with taker() as worker:
        worker.consume(prefetch=1)
        message = worker.take()
        assert not worker.channel.qos.can_consume()
        message.ack()
        assert worker.channel.qos.can_consume()


@pytest.mark.parametrize("name", [RUN, OTHER])
def test_what_is_rejected_comes_again_after_the_others_or_not_at_all(name: str) -> None:
    send(name, SETTLE)
    with taker() as worker:
        worker.take().reject(requeue=True)
        assert worker.waiting() == [SETTLE, name]
        assert worker.booked() == []
        for _ in range(2):
            worker.take().reject()
        assert (worker.booked(), worker.waiting()) == ([], [])


def test_who_closes_gives_back_what_it_has_not_done() -> None:
    send(RUN, OTHER, SETTLE, RUN)
    with taker() as worker:
        taken = [worker.take() for _ in range(4)]
        taken[0].ack()
        worker.channel.qos.restore_unacked_once()
        assert sorted(worker.waiting()) == sorted([OTHER, SETTLE, RUN])
        assert worker.client.zcard("unacked_index") == 0
        assert worker.booked() == []


def test_what_was_given_back_is_the_same_message(queue: Harness) -> None:
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
        first, second = channel.basic_get("default"), channel.basic_get("default")
        channel._disconnect_pools()
        channel.connection.client = None  # as kombu leaves it when the broker hangs up
        channel.qos.restore_unacked_once()
        assert "messages.kept count=2 error=AttributeError" in caplog.text
        first.ack()  # what was running then is done
        second.reject(requeue=True)
        channel.connection.client = connection
    with taker() as worker:
        booked = worker.booked()
        worker.client.delete("unacked", "unacked_index")
    assert booked == ([OTHER] * 2 if name == OTHER else []), "what is not ours is given out again by kombu"
