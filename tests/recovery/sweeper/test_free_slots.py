from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import OCCURRENCE_ACTIVE, OccurrenceState
from punctual.recovery.sweeper.free_slots import admit_stranded
from tests.execution.conftest import NOW
from tests.occurrences.factories import an_occurrence, saved

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
def test_an_occurrence_behind_an_active_one_keeps_waiting(
    job: Job, task: Task, state: OccurrenceState
) -> None:
    saved(an_occurrence(job, NOW, state))
    saved(an_occurrence(job, NOW + timedelta(seconds=1), S.QUEUED))
    assert admit_stranded(NOW) == ()


def test_an_active_occurrence_that_is_not_exclusive_does_not_block_the_next(job: Job, task: Task) -> None:
    saved(an_occurrence(job, NOW, S.RUNNING, exclusive=False))
    saved(an_occurrence(job, NOW + timedelta(seconds=1), S.QUEUED))
    assert len(admit_stranded(NOW)) == 1


def test_without_waiting_occurrences_it_costs_one_query(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    with django_assert_num_queries(1):
        assert admit_stranded(NOW) == ()
