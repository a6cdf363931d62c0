"""A harness on an empty broker, and an empty registry for the jobs a page declares."""

from collections.abc import Iterator

import pytest

from punctual.jobs.declaration.registry import registry
from punctual.schedules.kinds import _KINDS
from tests.harness import Harness


@pytest.fixture
def harness(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    monkeypatch.setattr("punctual.schedules.kinds._KINDS", dict(_KINDS))  # a page may register its own kind
    harness = Harness()
    harness.lose_messages()
    with registry.isolated():
        yield harness
    harness.lose_messages()
