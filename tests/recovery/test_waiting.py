from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from jobs.models import Job, Task
from occurrences.models import Occurrence, TaskRun
from occurrences.states import OCCURRENCE_ACTIVE, OccurrenceState
from recovery.waiting import admit_stranded
from tests.execution.conftest import NOW
from tests.occurrences.ledger import an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-6")]

S = OccurrenceState


def test_the_oldest_stranded_occurrence_starts(job: Job, task: Task) -> None:
    younger, older = (
        saved(an_occurrence(job, NOW + timedelta(seconds=offset), S.QUEUED)) for offset in (2, 1)
    )
    (id_,) = admit_stranded(NOW)
    assert TaskRun.objects.get(id=id_).occurrence_id == older.id
    assert Occurrence.objects.get(id=younger.id).state == S.QUEUED
    assert admit_stranded(NOW) == (), "the slot is taken now"


@pytest.mark.parametrize("state", OCCURRENCE_ACTIVE)
def test_whoever_waits_behind_an_active_one_goes_on_waiting(
    job: Job, task: Task, state: OccurrenceState
) -> None:
    saved(an_occurrence(job, NOW, state))
    saved(an_occurrence(job, NOW + timedelta(seconds=1), S.QUEUED))
    assert admit_stranded(NOW) == ()


def test_an_active_occurrence_that_shares_does_not_hold_up_the_line(job: Job, task: Task) -> None:
    saved(an_occurrence(job, NOW, S.RUNNING, exclusive=False))
    saved(an_occurrence(job, NOW + timedelta(seconds=1), S.QUEUED))
    assert len(admit_stranded(NOW)) == 1


def test_nobody_waiting_is_one_read(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(1):
        assert admit_stranded(NOW) == ()
