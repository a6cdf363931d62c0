"""Fixtures: a world in virtual time on a real database; afterwards its trace must satisfy every property."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from punctual.jobs.models import Job, JobVersion, Task
from punctual.occurrences.models import Attempt, Cursor, Occurrence, TaskRun
from punctual.polling.models import Roster, TaskState
from tests.polling.world import World

NOON = datetime(2026, 1, 5, 12, 0, 20, tzinfo=UTC)  # twenty seconds into a minute, on a Monday

Worlds = Callable[..., World]


ROWS = [TaskState, Roster, Attempt, TaskRun, Occurrence, Cursor, JobVersion, Task, Job]


def clear() -> None:
    """Delete the rows of an example, before the next one of the same test."""
    for model in ROWS:
        model._default_manager.all().delete()


@pytest.fixture
def worlds(transactional_db: None) -> Iterator[Worlds]:
    started: list[World] = []

    def make(now: datetime = NOON, *, zone: str = "UTC") -> World:
        started.append(World(now, zone=zone))
        return started[-1]

    yield make
    for world in started:
        world.close()
    for world in started:
        world.assert_properties_hold()


@pytest.fixture
def world(worlds: Worlds) -> World:
    return worlds()
