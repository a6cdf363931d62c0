"""Fixtures: a job of two tasks, an empty broker, and brokers and result stores that are down."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from socket import socket
from typing import Any

import pytest
from celery import current_app
from kombu import pools

from punctual.execution.broker import redis
from punctual.jobs.declaration.registry import Registry, registry
from punctual.jobs.models import Job, Task
from tests.harness import Harness
from tests.occurrences.factories import a_job, a_task, saved

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def job(db: None) -> Job:
    return saved(a_job("job", NOW))


@pytest.fixture
def task(job: Job) -> Task:
    return saved(a_task(job, "first"))


@pytest.fixture
def second(job: Job) -> Task:
    return saved(a_task(job, "second", position=1))


@pytest.fixture
def declared() -> Iterator[Registry]:
    with registry.isolated():
        yield registry


@pytest.fixture
def queue() -> Iterator[Harness]:
    """The broker's default queue, empty before and after."""
    harness = Harness(now=NOW)
    harness.lose_messages()
    yield harness
    harness.lose_messages()


@pytest.fixture
def on_redis() -> None:
    with current_app.producer_or_acquire() as producer:
        if not redis.can_push(producer):
            pytest.skip("another broker")


@contextmanager
def broker_down() -> Iterator[None]:
    with closed_port() as address, configured(broker_url=address):
        yield


@contextmanager
def redis_down() -> Iterator[None]:
    """Broker and result store are down: in most installations they are one server."""
    with closed_port() as address, configured(broker_url=address, result_backend=address):
        yield


@contextmanager
def result_store_down() -> Iterator[None]:
    impatient = {"retry_policy": {"max_retries": 1, "interval_start": 0, "interval_max": 0.1}}
    with (
        closed_port() as address,
        configured(result_backend=address, result_backend_transport_options=impatient),
    ):
        yield


@contextmanager
def closed_port() -> Iterator[str]:
    """The address of a port that is bound without a listener: every connection is refused at once."""
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"redis://127.0.0.1:{taken.getsockname()[1]}/0"


@contextmanager
def configured(**settings: object) -> Iterator[None]:
    app: Any = current_app
    kept = {name: app.conf[name] for name in settings}
    try:
        app.conf.update(settings)
        forget_connections(app)
        yield
    finally:
        app.conf.update(kept)
        forget_connections(app)


def forget_connections(app: Any) -> None:
    """Drop the pools and the result store that Celery caches."""
    pools.reset()
    app._pool = app.amqp._producer_pool = app._backend_cache = None
    vars(app._local).pop("backend", None)
