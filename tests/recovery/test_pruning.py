"""Beats prune a few rows per sweep, once a minute, at a cost that depends on what there is to prune."""

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from punctual.jobs.models import Job
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import AttemptState, OccurrenceState, RunState
from punctual.operations.models import Audit
from punctual.recovery import counters
from punctual.recovery.models import PruneRound, Tally
from punctual.recovery.pruning import ROUND_INTERVAL, prune_step
from tests.execution.conftest import NOW
from tests.occurrences.factories import a_job, a_run, a_task, an_attempt, an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("REC-6")]

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
S, R = OccurrenceState, RunState


def history(name: str, hours: int, state: OccurrenceState = S.COMPLETED, **config: Any) -> Job:
    """A job with one occurrence, run and attempt in each of the last `hours` hours."""
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


def count_rows(job: Job) -> int:
    return Occurrence.objects.filter(job=job).count()


def whole_round(**bounds: int) -> Iterator[int]:
    """The number of rows each sweep prunes, until the round is complete."""
    while True:
        yield prune_step(NOW, **bounds)
        if PruneRound.objects.get().due_at > NOW:
            return


def statements(**bounds: int) -> int:
    with CaptureQueriesContext(connection) as captured:
        prune_step(NOW, **bounds)
    return len(captured)


def test_only_rows_older_than_their_jobs_retention_are_pruned() -> None:
    short, long, ever = (
        history("short", 9, retention="5h"),
        history("long", 9, retention="30d"),
        history("ever", 9),
    )
    assert list(whole_round()) == [4]
    assert (count_rows(short), count_rows(long), count_rows(ever)) == (5, 9, 9)
    assert Attempt.objects.count() == TaskRun.objects.count() == 23
    assert not Audit.objects.exists(), "the audit records requests of operators only"


def test_rounds_start_a_minute_apart_and_a_sweep_in_between_reads_one_row() -> None:
    job = history("job", 9, retention="5h")
    assert prune_step(NOW) == 4
    with CaptureQueriesContext(connection) as captured:
        assert prune_step(NOW + ROUND_INTERVAL - timedelta(seconds=1)) == 0
    assert len(captured) == 1
    assert prune_step(NOW + HOUR) == 1
    assert count_rows(job) == 4


def test_a_sweep_is_bounded_in_rows_and_jobs_and_the_next_continues_there() -> None:
    jobs = [history(f"job {n}", 8, retention="2h") for n in range(5)]
    steps = list(whole_round(jobs=2, rows=4))
    assert max(steps) == 4
    assert sum(steps) == 5 * 6
    assert [count_rows(job) for job in jobs] == [2] * 5


def test_the_position_is_stored_for_all_beats() -> None:
    history("job", 30, retention="1h")
    assert prune_step(NOW, rows=10) == 10
    first = PruneRound.objects.get()
    assert (first.job, first.due_at) == (Job.objects.get().id, NOW)
    assert prune_step(NOW, rows=10) == 10
    assert PruneRound.objects.filter(at__gt=first.at).exists()


def test_dead_letters_and_unfinished_occurrences_are_passed_however_many_there_are() -> None:
    job = history("job", 40, retention="1h")
    old = Occurrence.objects.filter(scheduled_for__lt=NOW - 10 * HOUR)
    dead = TaskRun.objects.filter(occurrence__in=old.filter(scheduled_for__lt=NOW - 20 * HOUR))
    dead.update(state=R.DLQ)
    late = old.filter(scheduled_for__gte=NOW - 20 * HOUR)
    late.update(finalized_at=None)
    assert sum(whole_round(rows=7)) == 9
    assert count_rows(job) == 1 + dead.count() + late.count() == 31
    dead.update(resolved_at=NOW, resolution="purged")
    PruneRound.objects.update(due_at=NOW)
    assert sum(whole_round(rows=7)) == 20


def test_all_rows_of_one_instant_are_pruned() -> None:
    job = history("job", 2, retention="1h")
    (row,) = Occurrence.objects.filter(scheduled_for__lt=NOW - HOUR)
    for _ in range(9):
        row.id, row.cause = uuid4(), "replay"
        saved(row)
    assert sum(whole_round(rows=3)) == 10
    assert count_rows(job) == 1


def test_statements_do_not_grow_with_jobs_or_rows() -> None:
    prune_step(NOW - HOUR)
    history("one", 3, retention="1h")
    few = statements()
    for number in range(30):
        history(f"job {number}", 6, retention=f"{1 + number % 3}h")
    PruneRound.objects.update(due_at=NOW)
    assert statements() == few
    assert Occurrence.objects.filter(scheduled_for__lt=NOW - 3 * HOUR).count() == 0


def test_an_edit_applies_at_once_and_an_invalid_retention_deletes_nothing() -> None:
    broken, odd, fine = (history(name, 9) for name in ("broken", "odd", "fine"))
    Job.objects.filter(id=broken.id).update(config={"retention": "for a while"})
    Job.objects.filter(id=odd.id).update(config=["retention"])
    assert sum(whole_round()) == 0
    Job.objects.filter(id=fine.id).update(config={"retention": "2h"})
    PruneRound.objects.update(due_at=NOW)
    assert sum(whole_round()) == 7
    assert (count_rows(broken), count_rows(odd), count_rows(fine)) == (9, 9, 2)


@override_settings(PUNCTUAL={"retention": "3h"})
def test_a_job_overrides_the_retention_of_the_platform() -> None:
    plain, own = history("plain", 9), history("own", 9, retention="6h")
    assert sum(whole_round()) == 6 + 3
    assert (count_rows(plain), count_rows(own)) == (3, 6)


@pytest.mark.req("OPS-4")
def test_counters_stay_the_same_and_there_is_one_tally_per_key() -> None:
    history("job", 20, retention="1h")
    before = [counters.occurrence_totals(), counters.attempt_totals()]
    while prune_step(NOW, rows=3):
        assert [counters.occurrence_totals(), counters.attempt_totals()] == before
    assert count_rows(Job.objects.get()) == 1
    assert {(row.counter, row.label, row.count) for row in Tally.objects.all()} == {
        ("occurrences", "completed", 19),
        ("attempts", "success", 19),
    }


@pytest.mark.req("OPS-6")
def test_a_sweep_logs_pruned_occurrences_and_jobs_and_logs_nothing_otherwise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    history("one", 4, retention="1h")
    history("another", 3, retention="1h")
    with caplog.at_level(logging.INFO, logger="punctual"):
        assert list(whole_round()) == [5]
        assert list(whole_round()) == [0]
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.INFO, "occurrences.pruned jobs=2 occurrences=5")


def test_a_round_through_an_empty_database_prunes_nothing() -> None:
    assert list(whole_round()) == [0]
