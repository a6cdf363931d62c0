"""The checker of the fault run counts lost, doubled and stuck occurrences."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from django.db import connection

from benchmarks.checker import Scorecard, check
from punctual import Context, Job
from punctual.jobs.ids import parse_id
from punctual.occurrences.models import Occurrence, TaskRun
from tests.harness import Harness

pytestmark = pytest.mark.req("TSK-3")


@pytest.fixture
def effects(transactional_db: None) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE cluster_app_effect (source text, run_id char(32))")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE cluster_app_effect")


def note(run_id: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO cluster_app_effect VALUES ('job', %s)", [parse_id("run", run_id).hex])


def once(ctx: Context) -> None:
    note(ctx.run_id)


@pytest.fixture
def end(effects: None, harness: Harness) -> datetime:
    Job("job", "* * * * *", overlap="allow").task(transactional=True)(once)
    harness.sync()
    for _ in range(6):
        harness.pass_time(minutes=1)
        harness.tick()
        harness.work()
    return harness.now


def count_faults(end: datetime) -> tuple[int, int, int]:
    card = check(end=end)
    return card.lost, card.doubled, card.stuck


def test_a_ledger_without_faults_is_clean(end: datetime) -> None:
    card = check(end=end)
    assert card == Scorecard(
        expected=6,
        lost=0,
        doubled=0,
        stuck=0,
        late=0,
        repeated=0,
        runs=6,
        attempts_lost=0,
        lateness=card.lateness,
    )
    assert card.clean


def test_an_instant_without_a_row_is_lost(end: datetime) -> None:
    Occurrence.objects.filter(state="completed").earliest("scheduled_for").delete()
    assert count_faults(end) == (1, 0, 0)


def test_an_occurrence_that_did_not_complete_is_lost(end: datetime) -> None:
    first = Occurrence.objects.filter(state="completed").earliest("scheduled_for")
    Occurrence.objects.filter(id=first.id).update(state="missed")
    assert count_faults(end)[0] == 1


def test_a_success_without_effect_is_lost_and_with_two_effects_doubled(end: datetime) -> None:
    first, second = TaskRun.objects.filter(state="success")[:2]
    note(first.display_id)
    assert count_faults(end) == (0, 1, 0)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM cluster_app_effect WHERE run_id = %s", [second.id.hex])
    assert count_faults(end) == (1, 1, 0)


def test_an_open_occurrence_is_stuck(end: datetime) -> None:
    first = Occurrence.objects.filter(state="completed").earliest("scheduled_for")
    Occurrence.objects.filter(id=first.id).update(state="running", finished_at=None, finalized_at=None)
    assert count_faults(end) == (0, 0, 1)
    assert not check(end=end).clean


def test_an_instant_outside_the_schedule_is_doubled_and_a_late_start_is_counted(end: datetime) -> None:
    first = Occurrence.objects.filter(state="completed").earliest("scheduled_for")
    Occurrence.objects.filter(id=first.id).update(started_at=first.run_at + timedelta(seconds=61))
    assert check(end=end).late == 1
    Occurrence.objects.filter(id=first.id).update(scheduled_for=first.scheduled_for + timedelta(seconds=7))
    assert count_faults(end) == (1, 1, 0)
