"""Choose the broker by the configured URL."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from celery import Signature
from kombu import Producer

from punctual.execution.broker import messages, redis
from punctual.execution.broker.bundling import Bundle
from punctual.execution.broker.messages import Broker

BROKERS: tuple[Broker, ...] = (redis.Redis(), Broker())  # the first that handles the URL


@cache
def broker_of(url: str) -> Broker:
    return next(broker for broker in BROKERS if broker.handles(url))


def publish_chord(bundles: Sequence[Bundle], callback: "Signature[Any]", producer: Producer) -> None:
    """Send a fan-out as a chord. The result store counts it, and it may be another server than the broker."""
    publish = redis.publish_chord if redis.counts_chords() else messages.publish_chord
    publish(bundles, callback, producer)
