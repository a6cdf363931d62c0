"""The exceptions of this package.

    ScheduleError
    ├── ChronexError                 every problem of one Chronex text
    ├── TriggerDefinitionError       a trigger document that breaks its JSON Schema
    ├── InvalidCronExpressionError   a POSIX cron text outside the strict grammar
    ├── CronCalculationError         a POSIX search that found nothing within its limit
    ├── Iso8601Error                 a repeating interval that cannot be parsed
    ├── KrontabError                 a one-string krontab entry that cannot be parsed
    ├── DecisionError                a decision request that breaks the contract
    ├── DelayError                   a fixed delay that cannot be parsed
    ├── CustomScheduleError          code of a registered kind that failed or broke its contract
    ├── UnknownKindError             a `kind:` prefix that is not registered
    ├── UnknownZoneError             a name that is not an IANA zone
    └── NaiveInstantError            a datetime without an offset, or no datetime at all

Every error carries the field, the value and, where there is a text, the 0-based position. `hint` proposes
what to write instead, if that can be guessed; `str()` appends it to the message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from punctual.schedules.text import clip


def _with_hint(message: str, hint: str) -> str:
    return f"{message} ({hint})" if hint else message


class ScheduleError(Exception):
    """Root of this package's exceptions."""

    def __init__(
        self,
        message: str = "",
        *,
        field: str = "",
        value: str = "",
        position: int | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.value = value
        self.position = position
        self.hint = hint

    def __str__(self) -> str:
        return _with_hint(self.message, self.hint)

    def move_by(self, offset: int) -> None:
        """Count the position from an earlier start, such as that of a prefix before the text."""
        if self.position is not None:
            self.position += offset


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding of the Chronex parser: an error or a warning."""

    code: str
    field: str
    message: str
    value: str = ""
    position: int | None = None
    hint: str = ""

    def __str__(self) -> str:
        return _with_hint(self.message, self.hint)

    def move_by(self, offset: int) -> Problem:
        """The same problem, its position moved by the offset of the field in the text."""
        return replace(self, position=None if self.position is None else self.position + offset)


class ChronexError(ScheduleError):
    """A Chronex text with at least one error; `errors` holds all of them, leftmost first."""

    def __init__(self, errors: tuple[Problem, ...], warnings: tuple[Problem, ...] = ()) -> None:
        first = errors[0]
        message = "; ".join(f"{item.code} {item}" for item in errors[:5])
        super().__init__(message, field=first.field, value=first.value, position=first.position)
        self.args = (errors, warnings)
        self.errors: tuple[Problem, ...] = errors
        self.warnings: tuple[Problem, ...] = warnings
        self.code = first.code

    def move_by(self, offset: int) -> None:
        super().move_by(offset)
        self.errors = tuple(item.move_by(offset) for item in self.errors)
        self.warnings = tuple(item.move_by(offset) for item in self.warnings)
        self.args = (self.errors, self.warnings)


class TriggerDefinitionError(ScheduleError):
    """A trigger document that its JSON Schema refuses; `field` is a JSON path."""


class InvalidCronExpressionError(ScheduleError):
    """A POSIX cron text that the strict grammar refuses; the leftmost bad field is named."""

    def __init__(self, expression: str, field: str, reason: str, position: int | None = None) -> None:
        message = f'Invalid cron expression "{clip(expression)}": {field} field {reason}'
        super().__init__(message, field=field, value=clip(expression), position=position)
        self.args = (expression, field, reason, position)
        self.expression = expression
        self.reason = reason

    @property
    def details(self) -> dict[str, object]:
        """The data of the error, under the keys that the polling scheduler documents."""
        return {"expression": self.expression, "field": self.field, "reason": self.reason}


class CronCalculationError(ScheduleError):
    """A valid POSIX expression without a result inside the search limit."""

    def __init__(self, expression: str, current_time: str, cause: str) -> None:
        message = f"Failed to calculate next occurrence: {cause}"
        super().__init__(message, field="expression", value=expression)
        self.args = (expression, current_time, cause)
        self.expression = expression
        self.current_time = current_time
        self.cause = cause

    @property
    def details(self) -> dict[str, object]:
        """The data of the error, under the keys that the polling scheduler documents."""
        return {"expression": self.expression, "currentTime": self.current_time, "cause": self.cause}


class Iso8601Error(ScheduleError):
    """A repeating interval that cannot be parsed; `field` names the part."""


class KrontabError(ScheduleError):
    """A krontab entry that cannot be parsed; `field` names the modifier."""


class DecisionError(ScheduleError):
    """A decision request that breaks the contract; `kind` is stable for programs."""

    def __init__(
        self, kind: str, message: str, *, field: str = "", value: str = "", position: int | None = None
    ) -> None:
        super().__init__(message, field=field, value=value, position=position)
        self.args = (kind, message)
        self.kind = kind


class DelayError(ScheduleError):
    """A `delay:` text is not a duration."""


class CustomScheduleError(ScheduleError):
    """Code of a registered kind raised, took too long, or returned what is not a later instant."""


class UnknownKindError(ScheduleError):
    """A schedule text whose `kind:` prefix is not registered, or a kind that cannot be registered."""


class UnknownZoneError(ScheduleError):
    """A name that the IANA database does not hold as a zone."""


class NaiveInstantError(ScheduleError):
    """A datetime without an offset, or another object, where an instant was expected."""
