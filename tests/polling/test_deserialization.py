"""Stored tasks are deserialized, or refused with field, value and expected type."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from punctual.jobs.models import Job
from punctual.polling import errors
from punctual.polling.deserialization import OPTIONAL, REQUIRED, deserialize
from punctual.polling.models import TaskState
from punctual.polling.reconciliation import Reconciliation, classify
from punctual.polling.registrations import Rule
from punctual.polling.scheduler_events import SchedulerEvent
from tests.polling.world import World

pytestmark = pytest.mark.req("POL-6")

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
WHO = UUID(int=7)
GOOD: dict[str, Any] = {
    "name": "a",
    "schedule": "posix:0 12 * * *",
    "retryDelay": timedelta(seconds=5),
    "schedulerIdentifier": WHO,
    "countsFrom": NOW,
    "lastAttemptAt": NOW,
    "lastSuccessAt": None,
    "pendingRetryUntil": None,
}


def test_a_valid_record_is_deserialized() -> None:
    task = deserialize(GOOD)
    assert (task.name, task.rule) == ("a", Rule("0 12 * * *", timedelta(seconds=5)))
    assert (task.scheduler_id, task.last_attempt_at, task.last_success_at) == (WHO, NOW, None)


@pytest.mark.parametrize("value", [None, "text", [GOOD]])
def test_a_value_that_is_not_a_mapping_has_an_invalid_structure(value: object) -> None:
    with pytest.raises(errors.TaskInvalidStructureError) as caught:
        deserialize(value)
    assert caught.value.details == {"value": value}


@pytest.mark.parametrize("field", [*REQUIRED, *OPTIONAL])
def test_a_missing_field_is_named(field: str) -> None:
    with pytest.raises(errors.TaskMissingFieldError) as caught:
        deserialize({key: value for key, value in GOOD.items() if key != field})
    assert str(caught.value) == f"Missing required field: {field}"
    assert caught.value.details == {"field": field}


@pytest.mark.parametrize("field", [*REQUIRED, *OPTIONAL])
def test_a_wrong_type_is_named_with_what_was_expected(field: str) -> None:
    expected = (REQUIRED | OPTIONAL)[field].__name__  # type: ignore[operator]
    with pytest.raises(errors.TaskInvalidTypeError) as caught:
        deserialize(GOOD | {field: 5})
    assert str(caught.value) == f"Invalid type for field '{field}': expected {expected}, got int"
    details = {"field": field, "value": 5, "expectedType": expected, "actualType": "int"}
    assert caught.value.details == details


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schedule", "0 12 * * *"),
        ("schedule", "posix:*/5 * * * *"),
        ("retryDelay", timedelta(seconds=-1)),
        ("countsFrom", NOW.replace(tzinfo=None)),
        ("lastAttemptAt", NOW.replace(tzinfo=None)),
    ],
)
def test_a_wrong_value_is_named_with_the_reason(field: str, value: object) -> None:
    with pytest.raises(errors.TaskInvalidValueError) as caught:
        deserialize(GOOD | {field: value})
    details = caught.value.details
    assert (details["field"], details["value"]) == (field, value)
    assert str(caught.value) == f"Invalid value for field '{field}': {details['reason']}"


def test_every_error_is_a_deserialize_error() -> None:
    for name in ("MissingField", "InvalidType", "InvalidValue", "InvalidStructure"):
        assert issubclass(getattr(errors, f"Task{name}Error"), errors.TaskTryDeserializeError)


def spoil(name: str) -> None:
    Job.objects.filter(name=name).update(schedule="posix:nonsense")


@pytest.mark.req("POL-1")
def test_initialize_overrides_an_unreadable_stored_task_and_says_so(world: World) -> None:
    world.initialize(world.register("a", "0 3 * * *"))
    spoil("a")
    world.initialize(world.register("a", "0 3 * * *"), world.register("b", "0 3 * * *"))
    assert dict(Job.objects.values_list("name", "schedule")) == {
        "a": "posix:0 3 * * *",
        "b": "posix:0 3 * * *",
    }
    assert SchedulerEvent.TASK_UNREADABLE in world.signals


@pytest.mark.req("POL-1")
def test_initialize_removes_an_unreadable_stored_task_that_is_not_registered(world: World) -> None:
    world.initialize(world.register("a", "0 3 * * *"), world.register("b", "0 3 * * *"))
    spoil("a")
    for _ in range(2):
        world.initialize(world.register("b", "0 3 * * *"))
    assert list(Job.objects.registered().values_list("name", flat=True)) == ["b"]


@pytest.mark.req("POL-1")
def test_initialize_restores_the_state_of_a_stored_task_that_has_lost_it(world: World) -> None:
    world.initialize(world.register("a", "0 3 * * *"))
    TaskState.objects.all().delete()
    world.initialize(world.register("a", "0 3 * * *"))
    assert TaskState.objects.get().job.name == "a"


def test_a_poll_skips_an_unreadable_task_and_starts_the_others(world: World) -> None:
    world.initialize(world.register("a", "1 12 * * *"), world.register("b", "1 12 * * *"))
    Job.objects.filter(name="a").update(schedule="posix:nonsense")
    world.advance(minutes=1)
    assert world.running == ["b"]
    assert SchedulerEvent.TASK_UNREADABLE in world.signals
    world.recorder.events.clear()  # the unreadable task misses its start


@pytest.mark.req("POL-1")
def test_classification_compares_text_and_delay_exactly() -> None:
    hourly, delay = "0 * * * *", timedelta(seconds=1)
    stored = {name: Rule(hourly, delay) for name in ("same", "text", "delay", "gone")}
    wanted = {
        "same": Rule(hourly, delay),
        "text": Rule("00 * * * *", delay),  # the same minutes, another text
        "delay": Rule(hourly, delay + timedelta(microseconds=1)),
        "fresh": Rule(hourly, delay),
    }
    assert classify(wanted, stored) == Reconciliation(("fresh",), ("same",), ("delay", "text"), ("gone",))
