"""When a registered task starts, fails, waits and starts again; and what the ledger says about it."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.models import Job
from occurrences.models import Attempt, Occurrence, TaskRun
from polling.events import Signal
from polling.models import TaskState
from tests.polling.conftest import NOON, Worlds
from tests.polling.world import LEASE, World

MINUTE = timedelta(minutes=1)


def minute(text: str) -> datetime:
    hour, minutes = text.split(":")
    return NOON.replace(hour=int(hour), minute=int(minutes), second=0)


def instants(job: str) -> list[datetime]:
    return list(
        Occurrence.objects.filter(job__name=job)
        .order_by("scheduled_for")
        .values_list("scheduled_for", flat=True)
    )


@pytest.mark.req("POL-3")
def test_a_new_task_starts_at_once_if_the_current_minute_matches_and_else_at_its_next(world: World) -> None:
    world.initialize(world.register("now", "0 12 * * *"), world.register("later", "2 12 * * *"))
    assert world.running == ["now"]
    world.advance(seconds=100)
    assert world.starts("later") == [minute("12:02")]
