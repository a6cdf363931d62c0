"""Several beats and operators prune the same rows at the same time: each is deleted and counted once."""

from collections.abc import Callable
from datetime import timedelta
from threading import Event

import pytest

from punctual import Job
from punctual.jobs import control
from punctual.jobs.models import Job as JobRow
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.operations.prune_actions import prune_job
from punctual.recovery import counters
from punctual.recovery.models import PruneRound, Tally
from punctual.recovery.pruning import prune_step
from punctual.recovery.replay import Replayed, replay
from punctual.recovery.requester import Requester
from tests.harness import Harness
from tests.occurrences.factories import a_run, a_task, an_occurrence, saved
from tests.race.threads import at_once, names

pytestmark = pytest.mark.req("REC-6")

HOUR, BY = timedelta(hours=1), Requester("ada")
ROWS = 40


def noop(ctx: object) -> None: ...


@pytest.fixture
def old_rows(harness: Harness) -> Harness:
    """Six jobs with forty old occurrences each, every second one a child of another."""
    for name in names(6):
        Job(name, "0 0 1 1 *", retention="1h").task(noop)
    harness.sync()
    for job in JobRow.objects.order_by("id"):
        task = saved(a_task(job, "extra"))
        rows = [
            an_occurrence(job, harness.now - n * HOUR, OccurrenceState.COMPLETED, finalized_at=harness.now)
            for n in range(2, ROWS + 2)
        ]
        Occurrence.objects.bulk_create(rows)
        for parent, child in zip(rows[::2], rows[1::2], strict=True):
            Occurrence.objects.filter(id=child.id).update(parent=parent.id)
        TaskRun.objects.bulk_create(a_run(row, task, RunState.SUCCESS) for row in rows)
    return harness


def rounds(harness: Harness) -> Callable[[], int]:
    """A beat that prunes until nothing is left; others may hold the lock of the round at any moment."""

    def run() -> int:
        total = 0
        while Occurrence.objects.filter(finished_at__isnull=False).exists():
            total += prune_step(harness.now, jobs=2, rows=7)
            PruneRound.objects.filter(due_at__gt=harness.now).update(due_at=harness.now)
        return total

    return run


def by_hand(harness: Harness) -> Callable[[], int]:
    def run() -> int:
        kept = [
            prune_job(control.get_job(name), requester=BY, now=harness.now, limit=30) for name in names(6)
        ]
        return sum(one.pruned for one in kept if one is not None)

    return run


def test_three_beats_and_two_operators_prune_each_row_once_and_count_it_once(old_rows: Harness) -> None:
    before = counters.occurrence_totals()
    assert sum(before.values()) == 6 * ROWS
    deleted = at_once(*(rounds(old_rows) for _ in range(3)), by_hand(old_rows), by_hand(old_rows))
    assert sum(deleted) == 6 * ROWS
    assert counters.occurrence_totals() == before
    assert Tally.objects.count() == 6, "one for each job"


@pytest.mark.req("OPS-4")
def test_a_scrape_during_pruning_never_sees_a_counter_decrease(old_rows: Harness) -> None:
    over = Event()
    seen: list[int] = []

    def scrape() -> int:
        while not over.is_set():
            seen.append(sum(counters.occurrence_totals().values()))
        return 0

    def prune_all() -> int:
        try:
            return rounds(old_rows)()
        finally:
            over.set()

    at_once(scrape, prune_all)
    assert set(seen) == {6 * ROWS}


@pytest.mark.req("REC-4")
def test_an_occurrence_replayed_during_pruning_is_either_deleted_or_replayed(old_rows: Harness) -> None:
    ids = list(Occurrence.objects.filter(finished_at__isnull=False).values_list("id", flat=True))
    results: list[Replayed] = []

    def replay_all() -> int:
        results.append(replay(ids, requester=BY, now=old_rows.now))
        return 0

    at_once(replay_all, rounds(old_rows))
    (replayed,) = results
    assert len(replayed.created) + replayed.refused == len(ids)
    assert Occurrence.objects.filter(cause="replay").count() == len(replayed.created)
