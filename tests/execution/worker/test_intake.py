"""Messages that a worker cannot read are rejected once, and counted in rows."""

import json
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from celery import current_app
from django.db import OperationalError
from kombu.message import Message

from punctual.execution.broker.message_shape import Problem, find_problem
from punctual.execution.models import Rejection
from punctual.execution.worker.intake import Rejected, RejectionCounts, checked_handler, rejections
from tests.execution.conftest import NOW

RUN_BODY: list[Any] = [[[str(uuid4())]], {}, None]
REJECTED = Rejected(1, "worker@host", "a sample")


class Channel:
    """Notes what becomes of a message."""

    no_ack_consumers = None

    def __init__(self) -> None:
        self.rejected: list[tuple[str, bool]] = []

    def basic_reject(self, tag: str, *, requeue: bool) -> None:
        self.rejected.append((tag, requeue))


def a_message(body: Any = RUN_BODY, channel: Channel | None = None, **headers: Any) -> Message:
    return Message(
        body=json.dumps(body),
        channel=channel or Channel(),
        delivery_tag="tag",
        content_type="application/json",
        content_encoding="utf-8",
        delivery_info={"exchange": "", "routing_key": "default"},
        headers={"task": "punctual.run", "id": "id", **headers},
    )


def a_consumer(**attributes: Any) -> Any:
    defaults = {
        "app": current_app,
        "hostname": "worker@host",
        "strategies": {"punctual.run": None, "punctual.settle": None, "punctual.third": None},
        "connection_errors": (OSError, KeyError),
        "channel_errors": (),
        "controller": SimpleNamespace(semaphore=None),
    }
    return SimpleNamespace(**defaults | attributes)


def clock() -> datetime:
    return NOW


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (a_message(), None),
        (a_message({"task": "punctual.run", "args": RUN_BODY[0], "kwargs": {}}, task=None), None),
        (a_message([["no run"], {}, None], task="a.task.of.the.project", id=None), None),
        (a_message(task="punctual.third"), None),
        (a_message(task="punctual.fourth"), (Problem.UNKNOWN_TASK, "punctual.fourth")),
        (a_message(id=None), (Problem.MALFORMED, "id")),
        (a_message([["no run"], {}, None]), (Problem.MALFORMED, "args")),
        (a_message(RUN_BODY[:2]), (Problem.MALFORMED, "body")),
        (a_message(timelimit=[1.5, None]), None),
        (a_message(timelimit=["1", None]), (Problem.MALFORMED, "timelimit")),
    ],
)
def test_what_is_wrong_with_a_message_is_named(message: Message, problem: tuple[Problem, str] | None) -> None:
    assert find_problem(message, a_consumer().strategies) == problem


def test_a_message_that_celery_cannot_handle_is_removed_and_gives_its_slot_back() -> None:
    slots = SimpleNamespace(value=3)
    slots.release = lambda: setattr(slots, "value", slots.value + 1)

    def receive(_: Message) -> None:
        slots.value -= 1
        raise KeyError("id")

    channel = Channel()
    consumer = a_consumer(controller=SimpleNamespace(semaphore=slots))
    try:
        checked_handler(consumer, receive)(a_message(channel=channel))
        assert channel.rejected == [("tag", False)]
        assert slots.value == 3
    finally:
        rejections._counts.clear()


def test_an_error_of_the_broker_is_not_the_message_s() -> None:
    def receive(_: Message) -> None:
        raise ConnectionResetError

    channel = Channel()
    with pytest.raises(ConnectionResetError):
        checked_handler(a_consumer(), receive)(a_message(channel=channel))
    assert channel.rejected == []


@pytest.mark.django_db
def test_counts_are_added_to_one_row_per_queue_and_problem() -> None:
    counts = RejectionCounts()
    assert counts.write(clock) == 0
    for queue in ("default", "default", "other"):
        counts.add(queue, Problem.MALFORMED, REJECTED)
    assert counts.write(clock) == 3
    counts.add("default", Problem.MALFORMED, REJECTED)
    assert counts.write(lambda: NOW + timedelta(hours=1)) == 1
    rows = Rejection.objects.values_list("queue", "problem", "count", "last_at", "worker", "sample")
    assert list(rows) == [
        ("default", "malformed", 3, NOW + timedelta(hours=1), "worker@host", "a sample"),
        ("other", "malformed", 1, NOW, "worker@host", "a sample"),
    ]


@pytest.mark.django_db
def test_counts_that_could_not_be_written_are_kept() -> None:
    def away() -> datetime:
        raise OperationalError("the database does not answer")

    counts = RejectionCounts()
    counts.add("default", Problem.UNREADABLE, REJECTED)
    with pytest.raises(OperationalError):
        counts.write(away)
    counts.add("default", Problem.UNREADABLE, REJECTED)
    assert counts.write(clock) == 2
    assert Rejection.objects.get().count == 2
