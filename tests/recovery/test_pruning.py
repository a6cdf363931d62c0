"""Beats prune by themselves: rarely, a few rows at a time, at a price that follows what there is to prune."""

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from jobs.models import Job
from occurrences.models import Attempt, Occurrence, TaskRun
from occurrences.states import AttemptState, OccurrenceState, RunState
from recovery import totals
from recovery.models import Audit, PruneRound, Tally
from recovery.pruning import EVERY, prune_some
from tests.execution.conftest import NOW
from tests.occurrences.ledger import a_job, a_run, a_task, an_attempt, an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("REC-6")]

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
S, R = OccurrenceState, RunState


def history(name: str, hours: int, state: OccurrenceState = S.COMPLETED, **config: Any) -> Job:
    """A job with one occurrence, run and attempt in each of the last so many hours."""
    job = saved(a_job(name, NOW - 99 * DAY, config=config))
    task = saved(a_task(job))
    rows = [
        an_occurrence(job, NOW - hour * HOUR, state, finalized_at=NOW - hour * HOUR)
        for hour in range(1, hours + 1)
    ]
    Occurrence.objects.bulk_create(rows)
    runs = TaskRun.objects.bulk_create(a_run(row, task, R.SUCCESS) for row in rows)
    Attempt.objects.bulk_create(an_attempt(run, AttemptState.SUCCESS) for run in runs)
    return job


def left(job: Job) -> int:
    return Occurrence.objects.filter(job=job).count()


def whole_round(**bounds: int) -> Iterator[int]:
    """What each sweep prunes until every job has had its turn."""
    while True:
        yield prune_some(NOW, **bounds)
        if PruneRound.objects.get().due_at > NOW:
            return


def statements(**bounds: int) -> int:
    with CaptureQueriesContext(connection) as captured:
        prune_some(NOW, **bounds)
    return len(captured)


def test_what_is_older_than_its_job_keeps_it_goes_and_nothing_else() -> None:
    short, long, ever = (
        history("short", 9, retention="5h"),
        history("long", 9, retention="30d"),
        history("ever", 9),
    )
    assert list(whole_round()) == [4]
    assert (left(short), left(long), left(ever)) == (5, 9, 9)
    assert Attempt.objects.count() == TaskRun.objects.count() == 23
    assert not Audit.objects.exists(), "the audit is for what people ask for"


def test_a_round_begins_a_minute_after_the_last_and_until_then_a_sweep_reads_one_row() -> None:
    job = history("job", 9, retention="5h")
    assert prune_some(NOW) == 4
    with CaptureQueriesContext(connection) as captured:
        assert prune_some(NOW + EVERY - timedelta(seconds=1)) == 0
    assert len(captured) == 1
    assert prune_some(NOW + HOUR) == 1
    assert left(job) == 4


def test_a_sweep_looks_at_so_many_rows_and_jobs_and_the_next_goes_on_there() -> None:
    jobs = [history(f"job {n}", 8, retention="2h") for n in range(5)]
    steps = list(whole_round(jobs=2, rows=4))
    assert max(steps) == 4
    assert sum(steps) == 5 * 6
    assert [left(job) for job in jobs] == [2] * 5


def test_the_place_is_kept_where_every_beat_finds_it() -> None:
    history("job", 30, retention="1h")
    assert prune_some(NOW, rows=10) == 10
    first = PruneRound.objects.get()
    assert (first.job, first.due_at) == (Job.objects.get().id, NOW)
    assert prune_some(NOW, rows=10) == 10
    assert PruneRound.objects.filter(at__gt=first.at).exists()


def test_dead_letters_and_what_has_not_ended_are_passed_however_many_lie_in_the_way() -> None:
    job = history("job", 40, retention="1h")
    old = Occurrence.objects.filter(scheduled_for__lt=NOW - 10 * HOUR)
    dead = TaskRun.objects.filter(occurrence__in=old.filter(scheduled_for__lt=NOW - 20 * HOUR))
    dead.update(state=R.DLQ)
    late = old.filter(scheduled_for__gte=NOW - 20 * HOUR)
    late.update(finalized_at=None)
    assert sum(whole_round(rows=7)) == 9
    assert left(job) == 1 + dead.count() + late.count() == 31
    dead.update(resolved_at=NOW, resolution="purged")
    PruneRound.objects.update(due_at=NOW)
    assert sum(whole_round(rows=7)) == 20


def test_rows_of_one_instant_are_all_seen() -> None:
    job = history("job", 2, retention="1h")
    (row,) = Occurrence.objects.filter(scheduled_for__lt=NOW - HOUR)
    for _ in range(9):
        row.id, row.cause = uuid4(), "replay"
        saved(row)
    assert sum(whole_round(rows=3)) == 10
    assert left(job) == 1


def test_statements_do_not_grow_with_jobs_or_rows() -> None:
    prune_some(NOW - HOUR)
    history("one", 3, retention="1h")
    few = statements()
    for number in range(30):
        history(f"job {number}", 6, retention=f"{1 + number % 3}h")
    PruneRound.objects.update(due_at=NOW)
    assert statements() == few
    assert Occurrence.objects.filter(scheduled_for__lt=NOW - 3 * HOUR).count() == 0


def test_an_edit_counts_at_once_and_what_cannot_be_read_deletes_nothing() -> None:
    broken, odd, fine = (history(name, 9) for name in ("broken", "odd", "fine"))
    Job.objects.filter(id=broken.id).update(config={"retention": "for a while"})
    Job.objects.filter(id=odd.id).update(config=["retention"])
    assert sum(whole_round()) == 0
    Job.objects.filter(id=fine.id).update(config={"retention": "2h"})
    PruneRound.objects.update(due_at=NOW)
    assert sum(whole_round()) == 7
    assert (left(broken), left(odd), left(fine)) == (9, 9, 2)


@override_settings(PUNCTUAL={"retention": "3h"})
def test_the_platform_may_say_it_for_all_and_a_job_may_say_otherwise() -> None:
    plain, own = history("plain", 9), history("own", 9, retention="6h")
    assert sum(whole_round()) == 6 + 3
    assert (left(plain), left(own)) == (3, 6)


@pytest.mark.req("OPS-4")
def test_counters_stay_and_tallies_do_not_pile_up() -> None:
    history("job", 20, retention="1h")
    before = [totals.occurrences(), totals.attempts()]
    while prune_some(NOW, rows=3):
        assert [totals.occurrences(), totals.attempts()] == before
    assert left(Job.objects.get()) == 1
    assert {(row.counter, row.label, row.count) for row in Tally.objects.all()} == {
        ("occurrences", "completed", 19),
        ("attempts", "success", 19),
    }


@pytest.mark.req("OPS-6")
def test_a_sweep_that_pruned_tells_how_many_of_how_many_jobs_and_any_other_keeps_silent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    history("one", 4, retention="1h")
    history("another", 3, retention="1h")
    with caplog.at_level(logging.INFO, logger="punctual"):
        assert list(whole_round()) == [5]
        assert list(whole_round()) == [0]
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.INFO, "occurrences.pruned jobs=2 occurrences=5")


def test_an_empty_database_is_a_round_of_nothing() -> None:
    assert list(whole_round()) == [0]
