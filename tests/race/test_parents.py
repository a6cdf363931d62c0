"""A row that gets a child while it is pruned is either kept and linked, or deleted."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from punctual import Job
from punctual.jobs import control
from punctual.jobs.models import Job as JobRow
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.states import OccurrenceState
from punctual.operations.prune_actions import prune_job
from punctual.recovery.backfill import backfill
from punctual.recovery.pruning import prune_step
from punctual.recovery.replay import replay
from punctual.recovery.requester import Requester
from punctual.recovery.time_range import TimeRange
from tests.harness import Harness
from tests.occurrences.factories import an_occurrence
from tests.race.threads import before_commit

pytestmark = pytest.mark.req("REC-6")

HOUR, BY = timedelta(hours=1), Requester("ada")
ROWS = 20
Act = Callable[[], int]


def noop(ctx: object) -> None: ...


@dataclass(frozen=True)
class Story:
    """Old rows of one kind, an action that creates rows that refer to them, and the number it creates."""

    name: str
    refer: Callable[[Harness], Act]
    makes: int
    state: OccurrenceState = OccurrenceState.SKIPPED
    spans: bool = False


def resume(backlog: str) -> Callable[[Harness], Act]:
    return lambda harness: lambda: int(harness.resume("job", backlog=backlog))


def replay_all(harness: Harness) -> Act:
    ids = list(Occurrence.objects.filter(finished_at__isnull=False).values_list("id", flat=True))
    return lambda: len(replay(ids, requester=BY, now=harness.now).created)


def fill_in(harness: Harness) -> Act:
    job, span = control.get_job("job"), TimeRange(harness.now - (ROWS + 1) * HOUR, harness.now - 2 * HOUR)
    return lambda: backfill(job, span, requester=BY, now=harness.now).created


STORIES = [
    Story("resume, all of the backlog", resume("all"), ROWS),
    Story("resume, the last of it", resume("last"), 1),
    Story("resume, compressed", resume("compressed"), 1),
    Story("resume, a range", resume("all"), ROWS, spans=True),
    Story("replay", replay_all, ROWS, OccurrenceState.COMPLETED),
    Story("backfill", fill_in, ROWS, OccurrenceState.MISSED, spans=True),
]


def a_beat(harness: Harness) -> Act:
    return lambda: prune_step(harness.now)


def an_operator(harness: Harness) -> Act:
    def run() -> int:
        kept = prune_job(control.get_job("job"), requester=BY, now=harness.now)
        return kept.pruned if kept else 0

    return run


@pytest.fixture(params=STORIES, ids=lambda story: story.name)
def story(request: pytest.FixtureRequest, harness: Harness) -> Story:
    """A job that was paused for a day, and the rows of its hours."""
    story: Story = request.param
    Job("job", "@every 1h", retention="1h", overlap="allow").task(noop)
    harness.start_at(harness.now - 25 * HOUR)
    harness.now += 25 * HOUR
    JobRow.objects.update(paused_at=harness.now - 24 * HOUR)
    job = JobRow.objects.get()
    first, last = harness.now - (ROWS + 1) * HOUR, harness.now - 2 * HOUR
    columns: dict[str, Any] = {"reason": "paused", "finalized_at": first}
    hours = [an_occurrence(job, first + n * HOUR, story.state, **columns) for n in range(ROWS)]
    if story.spans:
        columns |= {"spans_until": last, "instants": ROWS}
        hours = [an_occurrence(job, first, story.state, **columns)]
    Occurrence.objects.bulk_create(hours)
    columns = {"settled_until": harness.now, "planned_until": harness.now, "plan_at": harness.now + HOUR}
    Cursor.objects.update(**columns)
    return story


def created_rows() -> list[Occurrence]:
    return list(Occurrence.objects.exclude(cause="schedule"))


@pytest.mark.req("JOB-8")
@pytest.mark.req("REC-4")
@pytest.mark.req("REC-5")
@pytest.mark.parametrize("pruner", [a_beat, an_operator])
def test_a_row_that_is_referred_to_first_is_not_pruned(
    harness: Harness, story: Story, pruner: Callable[[Harness], Act]
) -> None:
    old = Occurrence.objects.filter(finished_at__isnull=False).count()
    _, pruned = before_commit(story.refer(harness), pruner(harness))
    rows = created_rows()
    assert len(rows) == story.makes
    left = set(Occurrence.objects.values_list("id", flat=True))
    assert all(row.parent_id is None or row.parent_id in left for row in rows)
    assert pruned == old - Occurrence.objects.filter(finished_at__isnull=False).count()


@pytest.mark.req("JOB-8")
@pytest.mark.req("REC-4")
@pytest.mark.req("REC-5")
@pytest.mark.parametrize("pruner", [a_beat, an_operator])
def test_a_row_that_is_pruned_first_is_not_referred_to(
    harness: Harness, story: Story, pruner: Callable[[Harness], Act]
) -> None:
    pruned, _ = before_commit(pruner(harness), story.refer(harness))
    assert pruned == (1 if story.spans else ROWS)
    assert not Occurrence.objects.filter(finished_at__isnull=False).exists()
    assert all(row.parent_id is None for row in created_rows())
