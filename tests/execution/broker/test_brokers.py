"""The broker is chosen by its URL."""

from datetime import timedelta

import pytest

from punctual.execution.broker.brokers import broker_of
from punctual.execution.broker.redis import Redis
from tests.execution.conftest import configured


@pytest.mark.parametrize("url", ["redis://h", "rediss://h", "redis+socket:///tmp/s", "sentinel://h"])
def test_redis_and_sentinel_are_served_by_the_redis_file(url: str) -> None:
    assert isinstance(broker_of(url), Redis)


@pytest.mark.parametrize("url", ["amqp://h", "amqps://h", "memory://", "sqs://"])
def test_every_other_broker_is_served_through_kombu(url: str) -> None:
    broker = broker_of(url)
    assert not isinstance(broker, Redis)
    assert broker.next_runs(None, "default") == set()
    assert (broker.visibility_timeout(), broker.eviction_policy()) == (None, "")


@pytest.mark.parametrize(
    ("options", "seconds"), [({}, 3600), ({"visibility_timeout": 60}, 60), ({"visibility_timeout": "90"}, 90)]
)
def test_redis_redelivers_after_the_visibility_timeout(options: dict[str, object], seconds: int) -> None:
    with configured(broker_transport_options=options):
        assert broker_of("redis://h").visibility_timeout() == timedelta(seconds=seconds)


def test_a_server_that_does_not_answer_has_no_known_eviction_policy() -> None:
    with configured(broker_url="redis://127.0.0.1:1/0"):
        assert broker_of("redis://h").eviction_policy() == ""
