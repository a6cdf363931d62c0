"""Choose the broker by the configured URL."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from celery import Signature, current_app
from kombu import Producer

from punctual.execution.broker import amqp, redis
from punctual.execution.broker.bundling import Bundle

BROKERS: tuple[amqp.Broker, ...] = (redis.Redis(), amqp.Broker())  # the first that handles the URL


def current() -> amqp.Broker:
    return _broker_of(str(current_app.conf.broker_url or ""))


@cache
def _broker_of(url: str) -> amqp.Broker:
    return next(broker for broker in BROKERS if broker.handles(url))


def publish_chord(bundles: Sequence[Bundle], callback: "Signature[Any]", producer: Producer) -> None:
    """Send a fan-out as a chord. The result store counts it, and it may be another server than the broker."""
    publish = redis.publish_chord if redis.counts_chords() else amqp.publish_chord
    publish(bundles, callback, producer)
