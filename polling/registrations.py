"""Check the argument of `initialize` (POL-6). Pure.

Checks per registration, in this order: shape, name, callback, duplicate, cron, delay.
"""

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from punctual.jobs.config.bounded_duration import MAX_DURATION
from punctual.jobs.definition.document import MAX_SCHEDULE_LENGTH, validate_name
from punctual.jobs.errors import DefinitionError
from punctual.polling.errors import (
    CronExpressionInvalidError,
    FieldParseError,
    InvalidRegistrationError,
    NegativeRetryDelayError,
    RegistrationShapeError,
    RegistrationsNotArrayError,
    ScheduleDuplicateTaskError,
)
from punctual.schedules.errors import InvalidCronExpressionError
from punctual.schedules.posix import PosixCron, parse

Callback = Callable[[], Awaitable[None]]

PREFIX = "posix:"
FIELDS = ("minute", "hour", "day", "month", "weekday")
MAX_CRON_LENGTH = MAX_SCHEDULE_LENGTH - len(PREFIX)


class Registration(NamedTuple):
    """One task: its name, its cron text, its async callback, and the delay before a retry."""

    name: str
    cron: str
    callback: Callback
    retry_delay: timedelta


@dataclass(frozen=True)
class Rule:
    """What decides whether a task has changed: the exact cron text and the exact delay."""

    cron: str
    retry_delay: timedelta

    @property
    def schedule(self) -> str:
        return PREFIX + self.cron

    @property
    def pattern(self) -> PosixCron:
        return parse(self.cron)


@dataclass(frozen=True)
class CheckedRegistration:
    """A registration that has passed all checks."""

    name: str
    rule: Rule
    callback: Callback


def check_registrations(registrations: object) -> tuple[CheckedRegistration, ...]:
    """Check all registrations in order; raise the error of the first invalid registration."""
    if not isinstance(registrations, list | tuple) or isinstance(registrations, Registration):
        raise RegistrationsNotArrayError
    checked: dict[str, CheckedRegistration] = {}
    for index, item in enumerate(registrations):
        registration = _check_shape(index, item)
        _check_name(registration.name)
        _check_callback(registration.callback)
        if registration.name in checked:
            raise ScheduleDuplicateTaskError(registration.name)
        _check_cron(registration.cron)
        _check_delay(registration.retry_delay)
        checked[registration.name] = CheckedRegistration(
            registration.name, Rule(registration.cron, registration.retry_delay), registration.callback
        )
    return tuple(checked.values())


def digest(registrations: Iterable[CheckedRegistration]) -> str:
    """Equal for equal sets of names, cron texts and delays, in any order and process."""
    items = sorted((item.name, item.rule.cron, str(item.rule.retry_delay)) for item in registrations)
    return sha256(json.dumps(items).encode()).hexdigest()


def _check_shape(index: int, item: object) -> Registration:
    match item:
        case [str(name), str(cron), callback, timedelta() as delay] if callable(callback):
            return Registration(name, cron, callback, delay)
    raise RegistrationShapeError(index, item)


def _check_name(name: str) -> None:
    try:
        validate_name("name", name)
    except DefinitionError as error:
        raise InvalidRegistrationError("name", name, error.reason) from error


def _check_callback(callback: Any) -> None:
    called = getattr(callback, "__call__", None)  # noqa: B004 - an instance with an async `__call__`
    if not (inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(called)):
        raise InvalidRegistrationError("callback", callback, "must be an async function")


def _check_cron(text: str) -> None:
    try:
        parse(text)
    except InvalidCronExpressionError as error:
        invalid = CronExpressionInvalidError(text, error.field, error.reason)
        raise invalid from (_field_error(text, error) or error)
    if len(text) > MAX_CRON_LENGTH:
        reason = f"must not be longer than {MAX_CRON_LENGTH} characters"
        raise CronExpressionInvalidError(text, "expression", reason)


def _field_error(text: str, error: InvalidCronExpressionError) -> FieldParseError | None:
    parts = text.split()
    if error.field not in FIELDS or len(parts) != len(FIELDS):
        return None
    return FieldParseError(parts[FIELDS.index(error.field)], error.field, error.reason)


def _check_delay(delay: timedelta) -> None:
    if delay < timedelta():
        raise NegativeRetryDelayError(delay)
    if delay > MAX_DURATION:
        raise InvalidRegistrationError(
            "retryDelay", delay, f"must not be longer than {MAX_DURATION.days} days"
        )
