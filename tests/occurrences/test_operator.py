from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from punctual.jobs.errors import DefinitionError, PunctualError
from punctual.jobs.models import Job
from punctual.occurrences.ids import occurrence_id
from punctual.occurrences.models import Cursor, IdempotencyKey, Occurrence
from punctual.occurrences.operator import KEY_LIFETIME, MAX_TRIES, MICROSECOND, reschedule, skip_next, trigger
from punctual.occurrences.states import OccurrenceState
from tests.occurrences.factories import a_job, an_occurrence, saved

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def job() -> Job:
    return saved(a_job("job", NOW, version=3, config={"overlap": "queue"}))


@pytest.mark.req("OCC-9")
def test_only_the_next_planned_occurrence_is_skipped(job: Job) -> None:
    first, second = (saved(an_occurrence(job, NOW + number * HOUR)) for number in (1, 2))
    assert skip_next(job, now=NOW) == first.id
    rows = Occurrence.objects.order_by("scheduled_for").values_list("id", "state", "reason")
    assert list(rows) == [(first.id, "skipped", "operator"), (second.id, "pending", "")]


@pytest.mark.req("OCC-9")
def test_nothing_is_skipped_when_no_occurrence_is_planned(job: Job) -> None:
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
def test_only_a_pending_occurrence_can_be_moved_and_not_into_the_past(job: Job) -> None:
    row = saved(an_occurrence(job, NOW + HOUR))
    with pytest.raises(PunctualError, match="expected an instant from now on"):
        reschedule(row.id, run_at=NOW - HOUR, now=NOW)
    with pytest.raises(PunctualError, match="only a pending occurrence can be moved"):
        reschedule(uuid4(), run_at=NOW + HOUR, now=NOW)
    assert Occurrence.objects.get().run_at == row.run_at


@pytest.mark.req("OCC-9")
def test_a_manual_occurrence_is_due_now_and_runs_with_the_job_as_it_is(job: Job) -> None:
    id_ = trigger(job, args={"day": "monday"}, now=NOW)
    row = Occurrence.objects.get()
    assert (row.id, row.cause, row.args) == (id_, "manual", {"day": "monday"})
    assert row.scheduled_for == row.run_at == row.created_at == NOW
    assert (row.job_version, row.config["overlap"], row.exclusive) == (3, "queue", True)
    assert row.late_at is None, "a manual occurrence never counts as late"
    assert list(Occurrence.objects.due(NOW).timely(NOW + timedelta(days=9))) == [row]


@pytest.mark.req("OCC-9")
def test_a_trigger_does_not_take_the_instant_of_the_schedule(job: Job) -> None:
    planned = saved(an_occurrence(job, NOW))
    id_ = trigger(job, args={}, now=NOW)
    assert id_ == occurrence_id(job.id, NOW + MICROSECOND)
    planned.refresh_from_db()
    assert (planned.cause, planned.state) == ("schedule", "pending")


@pytest.mark.req("OCC-9")
def test_a_trigger_does_not_change_the_plan_of_the_schedule(job: Job) -> None:
    before = dict(Cursor.objects.values().get())
    trigger(job, args={}, now=NOW)
    assert dict(Cursor.objects.values().get()) == before


@pytest.mark.req("OCC-9")
def test_too_many_triggers_at_one_instant_are_refused(job: Job) -> None:
    Occurrence.objects.bulk_create(an_occurrence(job, NOW + n * MICROSECOND) for n in range(MAX_TRIES))
    with pytest.raises(PunctualError, match="job: 100 triggers at the same instant; try again"):
        trigger(job, args={}, now=NOW)
    assert Occurrence.objects.count() == MAX_TRIES


@pytest.mark.req("OCC-9")
def test_arguments_that_are_no_json_create_nothing(job: Job) -> None:
    with pytest.raises((TypeError, PunctualError), match="JSON"):
        trigger(job, args={"when": object()}, now=NOW)
    assert not Occurrence.objects.exists()


@pytest.mark.req("TSK-4")
def test_a_second_trigger_with_the_same_key_returns_the_first_occurrence(job: Job) -> None:
    first = trigger(job, args={"order": 7}, now=NOW, idempotency_key="order-7")
    again = trigger(job, args={"order": 7}, now=NOW + KEY_LIFETIME - HOUR, idempotency_key="order-7")
    other = trigger(job, args={"order": 8}, now=NOW, idempotency_key="order-8")
    assert (again, Occurrence.objects.count()) == (first, 2)
    assert other != first


@pytest.mark.req("TSK-4")
def test_an_expired_key_creates_a_new_occurrence(job: Job) -> None:
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
