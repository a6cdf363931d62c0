from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from punctual.beat.periodic_tasks.celery_entries import refresh_entry, reserve_run
from tests.execution.conftest import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-10")]

LATER = NOW + timedelta(seconds=10)


@pytest.fixture
def row() -> PeriodicTask:
    every = IntervalSchedule.objects.create(every=10, period=IntervalSchedule.SECONDS)
    return PeriodicTask.objects.create(name="ping", task="ping", interval=every, last_run_at=NOW)


def entry(row: PeriodicTask, last_run_at: datetime) -> SimpleNamespace:
    """An entry in the memory of a beat: a copy of the row, and the last run this beat knows of."""
    copy = PeriodicTask.objects.get(pk=row.pk)
    copy.last_run_at = last_run_at
    return SimpleNamespace(model=copy, last_run_at=last_run_at, total_run_count=copy.total_run_count)


def test_the_second_beat_to_reserve_a_run_loses(row: PeriodicTask) -> None:
    assert reserve_run(entry(row, NOW), entry(row, LATER))
    assert not reserve_run(entry(row, NOW), entry(row, LATER + timedelta(seconds=1)))
    row.refresh_from_db()
    assert (row.last_run_at, row.total_run_count) == (LATER, 1)


def test_a_task_that_never_ran_is_reserved_once(row: PeriodicTask) -> None:
    PeriodicTask.objects.update(last_run_at=None)
    assert reserve_run(entry(row, NOW), entry(row, LATER))
    assert not reserve_run(entry(row, NOW), entry(row, LATER))


def test_a_task_that_was_disabled_or_deleted_is_not_reserved(row: PeriodicTask) -> None:
    stale, following = entry(row, NOW), entry(row, LATER)
    PeriodicTask.objects.update(enabled=False)
    assert not reserve_run(stale, following)
    PeriodicTask.objects.all().delete()
    assert not reserve_run(stale, following)


@pytest.mark.req("OCC-8")
def test_a_reservation_writes_no_column_that_users_edit(row: PeriodicTask) -> None:
    stale, following = entry(row, NOW), entry(row, LATER)
    PeriodicTask.objects.update(args='["edited"]', queue="slow", description="by a user")
    assert reserve_run(stale, following)
    row.refresh_from_db()
    assert (row.args, row.queue, row.description) == ('["edited"]', "slow", "by a user")


def test_the_losing_beat_reads_what_the_winner_wrote(row: PeriodicTask) -> None:
    PeriodicTask.objects.update(last_run_at=LATER, total_run_count=7)
    mine = entry(row, NOW)
    refresh_entry(mine)
    assert (mine.last_run_at, mine.model.last_run_at) == (LATER, LATER)
    assert (mine.total_run_count, mine.model.total_run_count) == (7, 7)


def test_a_deleted_row_leaves_the_entry_unchanged(row: PeriodicTask) -> None:
    mine = entry(row, NOW)
    PeriodicTask.objects.all().delete()
    refresh_entry(mine)
    assert mine.last_run_at == NOW
