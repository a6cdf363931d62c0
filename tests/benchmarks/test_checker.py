"""The checker of the fault run can fail: a lost, a doubled, a stuck one is counted, each as what it is."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from django.db import connection

from benchmarks.checker import Scorecard, check
from jobs import Context, Job
from jobs.ids import parsed
from occurrences.models import Occurrence, TaskRun
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
        cursor.execute("INSERT INTO cluster_app_effect VALUES ('job', %s)", [parsed("run", run_id).hex])


def once(ctx: Context) -> None:
    note(ctx.run_id)


@pytest.fixture
def lived(effects: None, harness: Harness) -> datetime:
    Job("job", "* * * * *", overlap="allow").task(transactional=True)(once)
    harness.sync()
    for _ in range(6):
        harness.pass_time(minutes=1)
        harness.tick()
        harness.work()
    return harness.now


def found(end: datetime) -> tuple[int, int, int]:
    card = check(end=end)
    return card.lost, card.doubled, card.stuck


def test_a_ledger_without_a_fault_is_clean(lived: datetime) -> None:
    card = check(end=lived)
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


def test_an_instant_without_a_row_is_lost(lived: datetime) -> None:
    Occurrence.objects.filter(state="completed").earliest("scheduled_for").delete()
    assert found(lived) == (1, 0, 0)


def test_an_occurrence_that_did_not_complete_is_lost(lived: datetime) -> None:
    first = Occurrence.objects.filter(state="completed").earliest("scheduled_for")
    Occurrence.objects.filter(id=first.id).update(state="missed")
    assert found(lived)[0] == 1


def test_a_success_without_its_effect_is_lost_and_with_two_of_them_doubled(lived: datetime) -> None:
    first, second = TaskRun.objects.filter(state="success")[:2]
    note(first.shown_id)
    assert found(lived) == (0, 1, 0)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM cluster_app_effect WHERE run_id = %s", [second.id.hex])
    assert found(lived) == (1, 1, 0)


def test_what_is_not_over_is_stuck(lived: datetime) -> None:
    first = Occurrence.objects.filter(state="completed").earliest("scheduled_for")
    Occurrence.objects.filter(id=first.id).update(state="running", finished_at=None, finalized_at=None)
    assert found(lived) == (0, 0, 1)
    assert not check(end=lived).clean


def test_what_the_schedule_does_not_name_is_doubled_and_what_came_late_is_told(lived: datetime) -> None:
    first = Occurrence.objects.filter(state="completed").earliest("scheduled_for")
    Occurrence.objects.filter(id=first.id).update(started_at=first.run_at + timedelta(seconds=61))
    assert check(end=lived).late == 1
    Occurrence.objects.filter(id=first.id).update(scheduled_for=first.scheduled_for + timedelta(seconds=7))
    assert found(lived) == (1, 1, 0)
