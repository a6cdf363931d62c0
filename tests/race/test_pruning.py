"""Several beats and operators prune the same rows at one moment: each goes once and is counted once."""

from collections.abc import Callable
from datetime import timedelta
from threading import Event

import pytest

from jobs import Job, control
from jobs.models import Job as JobRow
from occurrences.models import Occurrence, TaskRun
from occurrences.states import OccurrenceState, RunState
from recovery import totals
from recovery.audit import Asked
from recovery.models import PruneRound, Tally
from recovery.pruning import prune_some
from recovery.replay import Replayed, replay
from recovery.retention import prune
from tests.harness import Harness
from tests.occurrences.ledger import a_run, a_task, an_occurrence, saved
from tests.race.threads import at_once, names

pytestmark = pytest.mark.req("REC-6")

HOUR, BY = timedelta(hours=1), Asked("ada")
ROWS = 40


def noop(ctx: object) -> None: ...


@pytest.fixture
def old(harness: Harness) -> Harness:
    """Six jobs with forty old occurrences each, every second of which another one repeated."""
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
    """A beat that sweeps until nothing is left; the others may hold the place at any moment."""

    def run() -> int:
        total = 0
        while Occurrence.objects.filter(finished_at__isnull=False).exists():
            total += prune_some(harness.now, jobs=2, rows=7)
            PruneRound.objects.filter(due_at__gt=harness.now).update(due_at=harness.now)
        return total

    return run


def by_hand(harness: Harness) -> Callable[[], int]:
    def run() -> int:
        kept = [prune(control.get(name), asked=BY, now=harness.now, most=30) for name in names(6)]
        return sum(one.pruned for one in kept if one is not None)

    return run


def test_three_beats_and_two_operators_prune_each_row_once_and_count_it_once(old: Harness) -> None:
    before = totals.occurrences()
    assert sum(before.values()) == 6 * ROWS
    gone = at_once(*(rounds(old) for _ in range(3)), by_hand(old), by_hand(old))
    assert sum(gone) == 6 * ROWS
    assert totals.occurrences() == before
    assert Tally.objects.count() == 6, "one for each job, whoever added to it"


@pytest.mark.req("OPS-4")
def test_whoever_counts_meanwhile_never_sees_a_counter_fall(old: Harness) -> None:
    over = Event()
    seen: list[int] = []

    def scrape() -> int:
        while not over.is_set():
            seen.append(sum(totals.occurrences().values()))
        return 0

    def prune_all() -> int:
        try:
            return rounds(old)()
        finally:
            over.set()

    at_once(scrape, prune_all)
    assert set(seen) == {6 * ROWS}


@pytest.mark.req("REC-4")
def test_what_is_replayed_while_it_is_pruned_is_either_gone_or_linked(old: Harness) -> None:
    ids = list(Occurrence.objects.filter(finished_at__isnull=False).values_list("id", flat=True))
    made: list[Replayed] = []

    def replay_all() -> int:
        made.append(replay(ids, asked=BY, now=old.now))
        return 0

    at_once(replay_all, rounds(old))
    (done,) = made
    assert len(done.made) + done.refused == len(ids)
    assert Occurrence.objects.filter(cause="replay").count() == len(done.made)
