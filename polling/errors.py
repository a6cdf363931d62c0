"""The exceptions of the polling scheduler.

PollingError                         .details: a mapping with the documented keys
├── RegistrationsNotArrayError       `initialize` was not given a list
├── RegistrationShapeError           not (text, text, function, timedelta)
├── InvalidRegistrationError         the right shape with a wrong value
├── ScheduleDuplicateTaskError       two registrations with one name
├── CronExpressionInvalidError       a cron text that the strict grammar rejects
├── NegativeRetryDelayError
├── FieldParseError                  the invalid field of a cron text (raised as a cause)
├── SchedulerOptionError             a wrong argument of `Scheduler`
├── SchedulerDatabaseError           the database does not answer, or has no tables; nothing was changed
├── ScheduleTaskError                a task could not be stored; nothing was changed
├── StopSchedulerError               stopped, but the outcome of a run could not be recorded
├── TaskTryDeserializeError          a stored task that cannot be read
│   ├── TaskMissingFieldError
│   ├── TaskInvalidTypeError
│   ├── TaskInvalidValueError
│   └── TaskInvalidStructureError
└── TaskListMismatchError            the stored tasks differ from the registered ones

`InvalidCronExpressionError` and `CronCalculationError` are those of `punctual.schedules`, raised as causes.
"""

from collections.abc import Mapping
from datetime import timedelta

from punctual.jobs.errors import PunctualError
from punctual.schedules import CronCalculationError, InvalidCronExpressionError

__all__ = [
    "CronCalculationError",
    "CronExpressionInvalidError",
    "FieldParseError",
    "InvalidCronExpressionError",
    "InvalidRegistrationError",
    "NegativeRetryDelayError",
    "PollingError",
    "RegistrationShapeError",
    "RegistrationsNotArrayError",
    "ScheduleDuplicateTaskError",
    "ScheduleTaskError",
    "SchedulerDatabaseError",
    "SchedulerOptionError",
    "StopSchedulerError",
    "TaskInvalidStructureError",
    "TaskInvalidTypeError",
    "TaskInvalidValueError",
    "TaskListMismatchError",
    "TaskMissingFieldError",
    "TaskTryDeserializeError",
]

MILLISECOND = timedelta(milliseconds=1)


class PollingError(PunctualError):
    """Root of this package's exceptions."""

    def __init__(self, message: str, **details: object) -> None:
        self.message = message
        self.details: Mapping[str, object] = details
        super().__init__(message)


# -- registrations -------------------------------------------------------------------------------


class RegistrationsNotArrayError(PollingError):
    def __init__(self) -> None:
        super().__init__("Registrations must be an array")


class RegistrationShapeError(PollingError):
    def __init__(self, index: int, received: object) -> None:
        message = "Invalid registration shape: expected [string, string, function, Duration]"
        super().__init__(message, registrationIndex=index, received=received)


class InvalidRegistrationError(PollingError):
    def __init__(self, field: str, value: object, reason: str) -> None:
        super().__init__(f"Invalid registration: {field} {reason}", field=field, value=value, reason=reason)


class ScheduleDuplicateTaskError(PollingError):
    def __init__(self, name: str) -> None:
        super().__init__(f'Task with name "{name}" is already scheduled', taskName=name)


class CronExpressionInvalidError(PollingError):
    def __init__(self, expression: str, field: str, reason: str) -> None:
        message = f'Invalid cron expression "{expression}": {field} field {reason}'
        super().__init__(message, expression=expression, field=field, reason=reason)


class NegativeRetryDelayError(PollingError):
    def __init__(self, delay: timedelta) -> None:
        super().__init__("Retry delay must be non-negative", retryDelayMs=delay / MILLISECOND)


class FieldParseError(PollingError):
    def __init__(self, value: str, name: str, reason: str) -> None:
        super().__init__(f"{name} field {reason}", fieldValue=value, fieldName=name)


# -- life cycle ----------------------------------------------------------------------------------


class SchedulerOptionError(PollingError):
    def __init__(self, field: str, value: object, reason: str) -> None:
        message = f"Invalid scheduler option: {field}={value!r}: {reason}"
        super().__init__(message, field=field, value=value, reason=reason)


class SchedulerDatabaseError(PollingError):
    def __init__(self, cause: Exception, *, advice: str) -> None:
        text = " ".join(str(cause).split())
        super().__init__(f"The database refused: {text}; {advice}", cause=cause)


class ScheduleTaskError(PollingError):
    def __init__(self, name: str, cron: str, cause: Exception) -> None:
        message = f"Failed to schedule task '{name}': {cause}"
        super().__init__(message, name=name, cronExpression=cron, cause=cause)


class StopSchedulerError(PollingError):
    def __init__(self, cause: Exception) -> None:
        super().__init__(f"Failed to stop scheduler: {cause}", cause=cause)


# -- stored state --------------------------------------------------------------------------------


class TaskTryDeserializeError(PollingError):
    """A stored task that cannot be read; the field and its value are in the details."""


class TaskMissingFieldError(TaskTryDeserializeError):
    def __init__(self, field: str) -> None:
        super().__init__(f"Missing required field: {field}", field=field)


class TaskInvalidTypeError(TaskTryDeserializeError):
    def __init__(self, field: str, value: object, expected: str) -> None:
        actual = type(value).__name__
        message = f"Invalid type for field '{field}': expected {expected}, got {actual}"
        super().__init__(message, field=field, value=value, expectedType=expected, actualType=actual)


class TaskInvalidValueError(TaskTryDeserializeError):
    def __init__(self, field: str, value: object, reason: str) -> None:
        super().__init__(
            f"Invalid value for field '{field}': {reason}", field=field, value=value, reason=reason
        )


class TaskInvalidStructureError(TaskTryDeserializeError):
    def __init__(self, message: str, value: object) -> None:
        super().__init__(message, value=value)


class TaskListMismatchError(PollingError):
    def __init__(self, expected: object, actual: object) -> None:
        message = f"Stored tasks {actual!r} are not the registered ones {expected!r}"
        super().__init__(message, expected=expected, actual=actual)
