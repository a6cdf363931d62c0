"""A world in virtual time on a real database; what happened in it must hold every temporal property."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from tests.polling.world import World

NOON = datetime(2026, 1, 5, 12, 0, 20, tzinfo=UTC)  # twenty seconds into a minute, on a Monday

Worlds = Callable[..., World]


@pytest.fixture
def worlds(transactional_db: None) -> Iterator[Worlds]:
    made: list[World] = []

    def make(now: datetime = NOON, *, zone: str = "UTC") -> World:
        made.append(World(now, zone=zone))
        return made[-1]

    yield make
    for world in made:
        world.close()
    for world in made:
        world.assert_lawful()


@pytest.fixture
def world(worlds: Worlds) -> World:
    return worlds()
