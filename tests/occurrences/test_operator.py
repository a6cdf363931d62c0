from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from jobs.errors import DefinitionError, PunctualError
from jobs.models import Job
from occurrences.manual import KEY_LIFETIME, trigger
from occurrences.models import IdempotencyKey, Occurrence
from occurrences.operator import reschedule, skip_next
from occurrences.states import OccurrenceState
from tests.occurrences.ledger import a_job, an_occurrence, saved

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def job() -> Job:
    return saved(a_job("job", NOW))


@pytest.mark.req("OCC-9")
def test_the_next_planned_one_is_skipped_and_only_that(job: Job) -> None:
    first, second = (saved(an_occurrence(job, NOW + number * HOUR)) for number in (1, 2))
    assert skip_next(job, now=NOW) == first.id
    rows = Occurrence.objects.order_by("scheduled_for").values_list("id", "state", "reason")
    assert list(rows) == [(first.id, "skipped", "operator"), (second.id, "pending", "")]


@pytest.mark.req("OCC-9")
def test_without_a_planned_one_there_is_nothing_to_skip(job: Job) -> None:
    saved(an_occurrence(job, NOW, OccurrenceState.RUNNING))
    assert skip_next(job, now=NOW) is None
    assert Occurrence.objects.get().state == "running"


@pytest.mark.req("OCC-9")
def test_a_moved_occurrence_keeps_its_instant_and_is_not_late(job: Job) -> None:
    row = saved(an_occurrence(job, NOW + HOUR))
    reschedule(row.id, run_at=NOW + 9 * HOUR, now=NOW)
    moved = Occurrence.objects.get()
    assert (moved.id, moved.scheduled_for, moved.run_at) == (row.id, NOW + HOUR, NOW + 9 * HOUR)
    assert not Occurrence.objects.late(NOW + 99 * HOUR).exists()


@pytest.mark.req("OCC-9")
def test_only_what_is_planned_can_be_moved_and_not_into_the_past(job: Job) -> None:
    row = saved(an_occurrence(job, NOW + HOUR))
    with pytest.raises(PunctualError, match="expected an instant from now on"):
        reschedule(row.id, run_at=NOW - HOUR, now=NOW)
    with pytest.raises(PunctualError, match="only a pending occurrence can be moved"):
        reschedule(uuid4(), run_at=NOW + HOUR, now=NOW)
    assert Occurrence.objects.get().run_at == row.run_at


@pytest.mark.req("TSK-4")
def test_a_second_trigger_with_the_same_key_finds_the_first_one(job: Job) -> None:
    first = trigger(job, args={"order": 7}, now=NOW, idempotency_key="order-7")
    again = trigger(job, args={"order": 7}, now=NOW + KEY_LIFETIME - HOUR, idempotency_key="order-7")
    other = trigger(job, args={"order": 8}, now=NOW, idempotency_key="order-8")
    assert (again, Occurrence.objects.count()) == (first, 2)
    assert other != first


@pytest.mark.req("TSK-4")
def test_after_its_time_a_key_makes_a_new_occurrence(job: Job) -> None:
    first = trigger(job, args={}, now=NOW, idempotency_key="order-7")
    later = trigger(job, args={}, now=NOW + KEY_LIFETIME, idempotency_key="order-7")
    assert later != first
    assert IdempotencyKey.objects.get().occurrence_id == later


@pytest.mark.req("TSK-4")
def test_a_key_belongs_to_its_job(job: Job) -> None:
    other = saved(a_job("other", NOW))
    assert trigger(job, args={}, now=NOW, idempotency_key="k") != trigger(
        other, args={}, now=NOW, idempotency_key="k"
    )


@pytest.mark.parametrize("key", ["", " ", "x" * 201, "a\nb"])
def test_a_key_that_cannot_be_stored_is_refused(job: Job, key: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        trigger(job, args={}, now=NOW, idempotency_key=key)
    assert caught.value.field == "idempotency_key"
    assert not Occurrence.objects.exists()
