import math
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from punctual.jobs.errors import DefinitionError, PunctualError
from punctual.jobs.ids import format_id, occurrence_id
from punctual.jobs.models import Job
from punctual.occurrences.models import Cause, Cursor, IdempotencyKey, Occurrence
from punctual.occurrences.operator import MAX_TRIES, MICROSECOND, reschedule, skip_next, trigger
from punctual.occurrences.states import OccurrenceState
from tests.occurrences.factories import a_job, an_occurrence, saved

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
KEY_LIFETIME = timedelta(hours=24)  # the default


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
@pytest.mark.parametrize("cause", [Cause.MANUAL, Cause.REPLAY, Cause.BACKFILL, Cause.RECOVERY])
def test_only_an_occurrence_of_the_schedule_is_skipped(job: Job, cause: Cause) -> None:
    other = saved(an_occurrence(job, NOW, cause=cause))
    planned = saved(an_occurrence(job, NOW + HOUR))
    assert skip_next(job, now=NOW) == planned.id
    assert skip_next(job, now=NOW) is None
    assert Occurrence.objects.get(state="pending") == other


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


def circular() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


class Opaque:
    def __repr__(self) -> str:
        return "<opaque>"


@pytest.mark.req("OCC-9")
@pytest.mark.parametrize("key", [None, "order-7"])
@pytest.mark.parametrize(
    ("args", "field", "reason"),
    [
        ({"price": math.nan}, "args.price", "expected a finite number"),
        ({"price": [1, -math.inf]}, "args.price[1]", "expected a finite number"),
        ({"order": {"note": "a\0b"}}, "args.order.note", "NUL and lone surrogates"),
        ({"a\0b": 1}, "args", "NUL and lone surrogates"),
        ({"note": "\ud800"}, "args.note", "NUL and lone surrogates"),
        ({"when": Opaque()}, "args.when", "expected JSON: .*; got Opaque"),
        ({"when": NOW}, "args.when", "expected JSON: .*; got datetime"),
        ({"ids": {1, 2}}, "args.ids", "expected JSON: .*; got set"),
        ({1: "one"}, "args", "expected a text as key"),
        ({"id": 1 << 20_000}, "args.id", "the number has 20001 bits, at most 4096"),
        ({"tree": circular()}, "args.tree" + "[0]" * 100, "nested too deeply"),
        ([1], "args", "expected a mapping of names"),
        ("text", "args", "expected a mapping of names"),
    ],
)
def test_arguments_that_cannot_be_stored_are_one_clear_error_and_create_nothing(
    job: Job, args: Any, field: str, reason: str, key: str | None
) -> None:
    with pytest.raises(DefinitionError, match=reason) as caught:
        trigger(job, args=args, now=NOW, idempotency_key=key)
    assert (caught.value.field, caught.value.owner) == (field, "job")
    assert not Occurrence.objects.exists()
    assert not IdempotencyKey.objects.exists()


@pytest.mark.req("OCC-9")
def test_every_json_value_is_an_argument(job: Job) -> None:
    args = {"text": "ü\n", "none": None, "yes": True, "n": 10**40, "x": -0.5, "list": [[], {"a": {}}]}
    trigger(job, args=args, now=NOW)
    assert Occurrence.objects.get().args == args


@pytest.mark.req("TSK-4")
def test_a_second_trigger_with_the_same_key_returns_the_first_occurrence(job: Job) -> None:
    first = trigger(job, args={"order": 7}, now=NOW, idempotency_key="order-7")
    again = trigger(job, args={"order": 7}, now=NOW + KEY_LIFETIME - HOUR, idempotency_key="order-7")
    other = trigger(job, args={"order": 8}, now=NOW, idempotency_key="order-8")
    assert (again, Occurrence.objects.count()) == (first, 2)
    assert other != first


@pytest.mark.req("TSK-4")
@pytest.mark.parametrize(
    "other", [{"args": {"order": 8}}, {"args": {"order": 7}, "overrides": {"task_timeout": "1h"}}]
)
def test_the_same_key_with_another_request_is_refused(job: Job, other: dict[str, Any]) -> None:
    first = trigger(job, args={"order": 7}, now=NOW, idempotency_key="order-7")
    with pytest.raises(DefinitionError, match="was used with other arguments or settings") as caught:
        trigger(job, now=NOW, idempotency_key="order-7", **other)
    assert (caught.value.field, caught.value.value) == ("idempotency_key", "order-7")
    assert format_id("occ", first) in str(caught.value)
    assert Occurrence.objects.get().id == first


@pytest.mark.req("TSK-4")
def test_arguments_in_another_order_are_the_same_request(job: Job) -> None:
    first = trigger(job, args={"a": 1, "b": [1]}, now=NOW, idempotency_key="k")
    assert trigger(job, args={"b": [1], "a": 1}, now=NOW, idempotency_key="k") == first


@pytest.mark.req("TSK-4")
def test_the_lifetime_of_keys_is_a_setting(job: Job, settings: Any) -> None:
    settings.PUNCTUAL = {"idempotency_lifetime": "1h"}
    first = trigger(job, args={}, now=NOW, idempotency_key="k")
    assert trigger(job, args={}, now=NOW + HOUR - MICROSECOND, idempotency_key="k") == first
    assert trigger(job, args={}, now=NOW + HOUR, idempotency_key="k") != first


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
