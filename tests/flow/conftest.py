"""A harness with an empty broker, and an empty registry for the jobs of a test."""

from collections.abc import Iterator

import pytest

from punctual.jobs.declaration.registry import Registry, registry
from tests.harness import Harness


@pytest.fixture
def harness(transactional_db: None) -> Iterator[Harness]:
    harness = Harness()
    harness.lose_messages()
    with registry.isolated():
        yield harness
    harness.lose_messages()


@pytest.fixture
def declared(harness: Harness) -> Registry:
    return registry
