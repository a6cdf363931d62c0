"""Somebody refers to an old row while somebody else deletes it: it is there and linked, or it is gone."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from jobs import Job, control
from jobs.models import Job as JobRow
from occurrences.models import Occurrence
from occurrences.states import OccurrenceState
from recovery.audit import Asked
from recovery.backfill import backfill
from recovery.pruning import prune_some
from recovery.replay import replay
from recovery.retention import prune
from recovery.span import Span
from tests.harness import Harness
from tests.occurrences.ledger import an_occurrence
from tests.race.threads import before_commit

pytestmark = pytest.mark.req("REC-6")

HOUR, BY = timedelta(hours=1), Asked("ada")
ROWS = 20
Act = Callable[[], int]


def noop(ctx: object) -> None: ...


@dataclass(frozen=True)
class Story:
    """Old rows of one kind, somebody who makes new ones that refer to them, and how many are to be made."""

    name: str
    refer: Callable[[Harness], Act]
    makes: int
    state: OccurrenceState = OccurrenceState.SKIPPED
    spans: bool = False


def resuming(backlog: str) -> Callable[[Harness], Act]:
    return lambda _harness: lambda: int(control.resume("job", backlog=backlog))


def replaying(harness: Harness) -> Act:
    ids = list(Occurrence.objects.filter(finished_at__isnull=False).values_list("id", flat=True))
    return lambda: len(replay(ids, asked=BY, now=harness.now).made)


def filling_in(harness: Harness) -> Act:
    job, span = control.get("job"), Span(harness.now - (ROWS + 1) * HOUR, harness.now - 2 * HOUR)
    return lambda: backfill(job, span, asked=BY, now=harness.now).made


STORIES = [
    Story("resume, all of the backlog", resuming("all"), ROWS),
    Story("resume, the last of it", resuming("last"), 1),
    Story("resume, compressed", resuming("compressed"), 1),
    Story("resume, a range", resuming("all"), ROWS, spans=True),
    Story("replay", replaying, ROWS, OccurrenceState.COMPLETED),
    Story("backfill", filling_in, ROWS, OccurrenceState.MISSED, spans=True),
]


def a_beat(harness: Harness) -> Act:
    return lambda: prune_some(harness.now)


def an_operator(harness: Harness) -> Act:
    def run() -> int:
        kept = prune(control.get("job"), asked=BY, now=harness.now)
        return kept.pruned if kept else 0

    return run


@pytest.fixture(params=STORIES, ids=lambda story: story.name)
def story(request: pytest.FixtureRequest, harness: Harness) -> Story:
    """A job that was paused for a day, and the rows of its hours."""
    told: Story = request.param
    Job("job", "@every 1h", retention="1h", overlap="allow").task(noop)
    harness.start_at(harness.now - 25 * HOUR)
    harness.now += 25 * HOUR
    JobRow.objects.update(paused_at=harness.now - 24 * HOUR)
    job = JobRow.objects.get()
    first, last = harness.now - (ROWS + 1) * HOUR, harness.now - 2 * HOUR
    columns: dict[str, Any] = {"reason": "paused", "finalized_at": first}
    hours = [an_occurrence(job, first + n * HOUR, told.state, **columns) for n in range(ROWS)]
    if told.spans:
        columns |= {"spans_until": last, "instants": ROWS}
        hours = [an_occurrence(job, first, told.state, **columns)]
    Occurrence.objects.bulk_create(hours)
    if told.name == "backfill":
        job.cursor.settled_until = harness.now
        job.cursor.save()
    return told


def made() -> list[Occurrence]:
    return list(Occurrence.objects.exclude(cause="schedule"))


@pytest.mark.req("JOB-8")
@pytest.mark.req("REC-4")
@pytest.mark.req("REC-5")
@pytest.mark.parametrize("pruner", [a_beat, an_operator])
def test_what_is_referred_to_first_stays_until_its_new_rows_are_there(
    harness: Harness, story: Story, pruner: Callable[[Harness], Act]
) -> None:
    old = Occurrence.objects.filter(finished_at__isnull=False).count()
    _, pruned = before_commit(story.refer(harness), pruner(harness))
    rows = made()
    assert len(rows) == story.makes
    left = set(Occurrence.objects.values_list("id", flat=True))
    assert all(row.parent_id is None or row.parent_id in left for row in rows)
    assert pruned == old - Occurrence.objects.filter(finished_at__isnull=False).count()


@pytest.mark.req("JOB-8")
@pytest.mark.req("REC-4")
@pytest.mark.req("REC-5")
@pytest.mark.parametrize("pruner", [a_beat, an_operator])
def test_what_is_being_deleted_is_gone_for_whoever_comes_later(
    harness: Harness, story: Story, pruner: Callable[[Harness], Act]
) -> None:
    pruned, _ = before_commit(pruner(harness), story.refer(harness))
    assert pruned == (1 if story.spans else ROWS)
    assert not Occurrence.objects.filter(finished_at__isnull=False).exists()
    assert all(row.parent_id is None for row in made())
