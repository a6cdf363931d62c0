"""Bad registrations are refused with class, message and details, in order, before anything is scheduled."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from punctual.jobs.models import Job
from punctual.polling import Registration, errors
from punctual.polling.registrations import MAX_CRON_LENGTH, check_registrations
from tests.polling.world import World

pytestmark = pytest.mark.req("POL-6")

HOUR = timedelta(hours=1)


async def callback() -> None: ...


def sync() -> None: ...


class Callable:
    async def __call__(self) -> None: ...


def one(name: Any = "a", cron: Any = "* * * * *", call: Any = callback, delay: Any = HOUR) -> tuple[Any, ...]:
    return name, cron, call, delay


@pytest.mark.parametrize("registrations", [[one()], (one(),), [list(one())], [Registration(*one())], []])
def test_lists_and_tuples_of_four_values_are_registrations(registrations: object) -> None:
    assert [item.name for item in check_registrations(registrations)] == ["a"][: len(registrations)]  # type: ignore[arg-type]


@pytest.mark.parametrize("call", [callback, partial(callback), Callable()])
def test_any_async_callable_is_a_callback(call: Any) -> None:
    assert check_registrations([one(call=call)])[0].callback is call


@pytest.mark.parametrize("registrations", [None, "a", {"a": 1}, iter([]), {one()}, Registration(*one())])
def test_a_value_that_is_not_a_list_is_refused(registrations: object) -> None:
    with pytest.raises(errors.RegistrationsNotArrayError) as caught:
        check_registrations(registrations)
    assert str(caught.value) == "Registrations must be an array"
    assert caught.value.details == {}


@pytest.mark.parametrize(
    "item",
    [None, "four", (), one()[:3], (*one(), 1), one(name=1), one(cron=None), one(call="f"), one(delay=60)],
)
def test_a_wrong_shape_is_refused_with_its_index_and_what_was_received(item: object) -> None:
    with pytest.raises(errors.RegistrationShapeError) as caught:
        check_registrations([one(), item])
    message = "Invalid registration shape: expected [string, string, function, Duration]"
    assert str(caught.value) == message
    assert caught.value.details == {"registrationIndex": 1, "received": item}


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (one(name=""), "name"),
        (one(name="   "), "name"),
        (one(name="x" * 201), "name"),
        (one(name="a\0b"), "name"),
        (one(name="\ud800"), "name"),
        (one(call=sync), "callback"),
        (one(delay=timedelta(days=367)), "retryDelay"),
    ],
)
def test_a_wrong_value_is_refused_with_field_value_and_reason(item: tuple[Any, ...], field: str) -> None:
    with pytest.raises(errors.InvalidRegistrationError) as caught:
        check_registrations([item])
    details = caught.value.details
    value = dict(zip(("name", "cron", "callback", "retryDelay"), item, strict=True))[field]
    assert (details["field"], details["value"]) == (field, value)
    assert str(details["reason"]) in str(caught.value)


def test_a_duplicate_name_is_refused() -> None:
    with pytest.raises(errors.ScheduleDuplicateTaskError) as caught:
        check_registrations([one(), one("b"), one()])
    assert str(caught.value) == 'Task with name "a" is already scheduled'
    assert caught.value.details == {"taskName": "a"}


@pytest.mark.parametrize(
    ("cron", "field", "part"),
    [
        ("*/15 * * * *", "minute", "*/15"),
        ("0 24 * * *", "hour", "24"),
        ("0 0 ? * *", "day", "?"),
        ("0 0 * 13 *", "month", "13"),
        ("0 0 * * mon", "weekday", "mon"),
        ("0 0 * * 7", "weekday", "7"),
    ],
)
def test_a_bad_cron_field_is_refused_and_named(cron: str, field: str, part: str) -> None:
    with pytest.raises(errors.CronExpressionInvalidError) as caught:
        check_registrations([one(cron=cron)])
    details = caught.value.details
    assert (details["expression"], details["field"]) == (cron, field)
    assert str(caught.value) == f'Invalid cron expression "{cron}": {field} field {details["reason"]}'
    cause = caught.value.__cause__
    assert isinstance(cause, errors.FieldParseError)
    assert cause.details == {"fieldValue": part, "fieldName": field}


@pytest.mark.parametrize("cron", ["", "@daily", "* * * *", "* * * * * *", "0 0 30 2 *"])
def test_a_cron_text_with_the_wrong_structure_is_refused(cron: str) -> None:
    with pytest.raises(errors.CronExpressionInvalidError) as caught:
        check_registrations([one(cron=cron)])
    assert caught.value.details["expression"] == cron
    assert caught.value.__cause__ is not None


def test_a_cron_text_too_long_to_be_stored_is_refused() -> None:
    fits = "*" + " " * (MAX_CRON_LENGTH - 8) + "* * * *"
    assert check_registrations([one(cron=fits)])
    with pytest.raises(errors.CronExpressionInvalidError) as caught:
        check_registrations([one(cron=fits + " ")])
    assert caught.value.details["field"] == "expression"


def test_a_negative_delay_is_refused_and_zero_is_not() -> None:
    assert check_registrations([one(delay=timedelta())])
    with pytest.raises(errors.NegativeRetryDelayError) as caught:
        check_registrations([one(delay=timedelta(microseconds=-1500))])
    assert str(caught.value) == "Retry delay must be non-negative"
    assert caught.value.details == {"retryDelayMs": -1.5}


WRONG_IN_MANY_WAYS = [
    (("b", "x", sync), "RegistrationShapeError", None),
    (one("", "x", sync, timedelta(-1)), "InvalidRegistrationError", "name"),
    (one("a", "x", sync, timedelta(-1)), "InvalidRegistrationError", "callback"),
    (one("a", "x", callback, timedelta(-1)), "ScheduleDuplicateTaskError", None),
    (one("b", "x", callback, timedelta(-1)), "CronExpressionInvalidError", "expression"),
    (one("b", "* * * * *", callback, timedelta(-1)), "NegativeRetryDelayError", None),
]


@pytest.mark.parametrize(("item", "expected", "field"), WRONG_IN_MANY_WAYS)
def test_checks_go_in_order_shape_name_callback_duplicate_cron_delay(
    item: tuple[Any, ...], expected: str, field: str | None
) -> None:
    with pytest.raises(errors.PollingError) as caught:
        check_registrations([one(), item])
    assert type(caught.value).__name__ == expected
    assert caught.value.details.get("field") == field


def test_the_first_bad_registration_is_reported_whatever_comes_after_it() -> None:
    with pytest.raises(errors.NegativeRetryDelayError):
        check_registrations([one(delay=timedelta(-1)), None])


def test_nothing_is_scheduled_when_one_registration_is_bad(world: World) -> None:
    with pytest.raises(errors.CronExpressionInvalidError):
        world.initialize(world.register("good"), world.register("bad", "nonsense"))
    world.advance(minutes=2)
    assert world.running == []
    assert not Job.objects.exists()


@pytest.mark.req("POL-6")
def test_the_errors_of_cron_texts_carry_their_details() -> None:
    invalid = errors.InvalidCronExpressionError("61 * * * *", "minute", "out of range")
    assert invalid.details == {"expression": "61 * * * *", "field": "minute", "reason": "out of range"}
    failed = errors.CronCalculationError("0 0 30 2 *", "2026-01-05T12:00:00Z", "no match")
    assert failed.details == {
        "expression": "0 0 30 2 *",
        "currentTime": "2026-01-05T12:00:00Z",
        "cause": "no match",
    }
