"""A world in virtual time on a real database; what happened in it must hold every temporal property."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from pytest_django.plugin import DjangoDbBlocker

from jobs.models import Job, JobVersion, Task
from occurrences.models import Attempt, Cursor, Occurrence, TaskRun
from polling.models import Roster, TaskState
from tests.polling.world import World

NOON = datetime(2026, 1, 5, 12, 0, 20, tzinfo=UTC)  # twenty seconds into a minute, on a Monday

Worlds = Callable[..., World]


ROWS = [TaskState, Roster, Attempt, TaskRun, Occurrence, Cursor, JobVersion, Task, Job]


@pytest.fixture
def transactional_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Committed rows that every thread sees, as pytest-django's fixture of this name; its flush of all
    tables takes half a second a test, taking back our own rows a few milliseconds."""
    with django_db_blocker.unblock():
        clear()
        yield
        clear()


def clear() -> None:
    for model in ROWS:
        model._default_manager.all().delete()


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
