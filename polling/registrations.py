"""What the user passes to `initialize` → checked registrations, or the first error (POL-6). Pure.

Checks per registration, in this order: shape, name, callback, duplicate, cron, delay.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from jobs.definition import LONGEST_SCHEDULE, checked_name
from jobs.durations import LONGEST
from jobs.errors import DefinitionError
from polling.errors import (
    CronExpressionInvalidError,
    FieldParseError,
    InvalidRegistrationError,
    NegativeRetryDelayError,
    RegistrationShapeError,
    RegistrationsNotArrayError,
    ScheduleDuplicateTaskError,
)
from schedules.errors import InvalidCronExpressionError
from schedules.posix import PosixCron, parse

Callback = Callable[[], Awaitable[None]]

PREFIX = "posix:"
FIELDS = ("minute", "hour", "day", "month", "weekday")
LONGEST_CRON = LONGEST_SCHEDULE - len(PREFIX)


class Registration(NamedTuple):
    """One task: its name, when it is due, what to call, and how long to wait after a failure."""

    name: str
    cron: str
    callback: Callback
    retry_delay: timedelta


@dataclass(frozen=True)
class Rule:
    """What two registrations are compared by: the exact text and the exact delay."""

    cron: str
    retry_delay: timedelta

    @property
    def schedule(self) -> str:
        return PREFIX + self.cron

    @property
    def pattern(self) -> PosixCron:
        return parse(self.cron)


@dataclass(frozen=True)
class Checked:
    """A registration that may be scheduled."""

    name: str
    rule: Rule
    callback: Callback


def checked(registrations: object) -> tuple[Checked, ...]:
    """All of them in order, or the error of the first that is wrong."""
    if not isinstance(registrations, list | tuple) or isinstance(registrations, Registration):
        raise RegistrationsNotArrayError
    found: dict[str, Checked] = {}
    for index, item in enumerate(registrations):
        one = _shaped(index, item)
        _check_name(one.name)
        _check_callback(one.callback)
        if one.name in found:
            raise ScheduleDuplicateTaskError(one.name)
        _check_cron(one.cron)
        _check_delay(one.retry_delay)
        found[one.name] = Checked(one.name, Rule(one.cron, one.retry_delay), one.callback)
    return tuple(found.values())


def _shaped(index: int, item: object) -> Registration:
    match item:
        case [str(name), str(cron), callback, timedelta() as delay] if callable(callback):
            return Registration(name, cron, callback, delay)
    raise RegistrationShapeError(index, item)


def _check_name(name: str) -> None:
    try:
        checked_name("name", name)
    except DefinitionError as error:
        raise InvalidRegistrationError("name", name, error.reason) from error


def _check_callback(callback: Any) -> None:
    called = getattr(callback, "__call__", None)  # noqa: B004 - asked for its own sake: it may be async
    if not (inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(called)):
        raise InvalidRegistrationError("callback", callback, "must be an async function")


def _check_cron(text: str) -> None:
    try:
        parse(text)
    except InvalidCronExpressionError as error:
        blamed = CronExpressionInvalidError(text, error.field, error.reason)
        raise blamed from (_field_error(text, error) or error)
    if len(text) > LONGEST_CRON:
        reason = f"must not be longer than {LONGEST_CRON} characters"
        raise CronExpressionInvalidError(text, "expression", reason)


def _field_error(text: str, error: InvalidCronExpressionError) -> FieldParseError | None:
    parts = text.split()
    if error.field not in FIELDS or len(parts) != len(FIELDS):
        return None
    return FieldParseError(parts[FIELDS.index(error.field)], error.field, error.reason)


def _check_delay(delay: timedelta) -> None:
    if delay < timedelta():
        raise NegativeRetryDelayError(delay)
    if delay > LONGEST:
        raise InvalidRegistrationError("retryDelay", delay, f"must not be longer than {LONGEST.days} days")
