"""Check the stored fields of a task and convert them to a value. Pure.

Rows may have been edited by hand, so every field is checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from punctual.polling.errors import (
    TaskInvalidStructureError,
    TaskInvalidTypeError,
    TaskInvalidValueError,
    TaskMissingFieldError,
)
from punctual.polling.registrations import PREFIX, Rule
from punctual.schedules.errors import InvalidCronExpressionError
from punctual.schedules.posix import parse

REQUIRED: Mapping[str, type] = {
    "name": str,
    "schedule": str,
    "retryDelay": timedelta,
    "schedulerIdentifier": UUID,
    "countsFrom": datetime,
}
OPTIONAL: Mapping[str, type] = {
    "lastAttemptAt": datetime,
    "lastSuccessAt": datetime,
    "pendingRetryUntil": datetime,
}


@dataclass(frozen=True)
class StoredTask:
    name: str
    rule: Rule
    scheduler_id: UUID
    counts_from: datetime
    last_attempt_at: datetime | None
    last_success_at: datetime | None
    pending_retry_until: datetime | None


def deserialize(record: object) -> StoredTask:
    if not isinstance(record, Mapping):
        raise TaskInvalidStructureError("A stored task must be a mapping of fields", record)
    for field, kind in REQUIRED.items():
        if record.get(field) is None:
            raise TaskMissingFieldError(field)
        _check_type(field, record[field], kind)
    for field, kind in OPTIONAL.items():
        if field not in record:
            raise TaskMissingFieldError(field)
        if record[field] is not None:
            _check_type(field, record[field], kind)
    return StoredTask(
        name=record["name"],
        rule=Rule(_cron(record["schedule"]), _delay(record["retryDelay"])),
        scheduler_id=record["schedulerIdentifier"],
        counts_from=_instant("countsFrom", record["countsFrom"]),
        last_attempt_at=_optional("lastAttemptAt", record),
        last_success_at=_optional("lastSuccessAt", record),
        pending_retry_until=_optional("pendingRetryUntil", record),
    )


def _check_type(field: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise TaskInvalidTypeError(field, value, kind.__name__)


def _cron(schedule: str) -> str:
    if not schedule.startswith(PREFIX):
        raise TaskInvalidValueError("schedule", schedule, f"must begin with {PREFIX}")
    cron = schedule.removeprefix(PREFIX)
    try:
        parse(cron)
    except InvalidCronExpressionError as error:
        raise TaskInvalidValueError("schedule", schedule, f"{error.field} field {error.reason}") from error
    return cron


def _delay(delay: timedelta) -> timedelta:
    if delay < timedelta():
        raise TaskInvalidValueError("retryDelay", delay, "must not be negative")
    return delay


def _instant(field: str, instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise TaskInvalidValueError(field, instant, "must have an offset")
    return instant


def _optional(field: str, record: Mapping[str, datetime | None]) -> datetime | None:
    instant = record[field]
    return None if instant is None else _instant(field, instant)
