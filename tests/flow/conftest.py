"""A harness with an empty broker, and an empty registry for the jobs of a test."""

from collections.abc import Iterator

import pytest
from django.conf import settings
from django.test import override_settings

from punctual.jobs.declaration.registry import Registry, registry
from tests.harness import Harness


@pytest.fixture
def harness(transactional_db: None) -> Iterator[Harness]:
    """What a test asks to recover, replay or backfill starts at once, unless its job has a recovery_rate."""
    harness = Harness()
    harness.lose_messages()
    at_once = settings.PUNCTUAL | {"recovery_rate": None}
    with registry.isolated(), override_settings(PUNCTUAL=at_once):
        yield harness
    harness.lose_messages()


@pytest.fixture
def declared(harness: Harness) -> Registry:
    return registry
