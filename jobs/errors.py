"""Errors of definitions and of calls on jobs, and the exceptions by which a task chooses its outcome.

PunctualError
├── DefinitionError          a declaration, file or form is wrong: .field .value .reason
├── UnknownJobError          no such job: .name
├── StaleVersionError        another editor has changed the job: .name .expected .actual
├── DatabaseAwayError        the database does not answer: .call
└── Steering                 raised by a task to choose its outcome
    ├── Cancel               stop here, not a failure
    ├── NonRetryable         fail now, without retries
    ├── RetryAfter(delay)    fail this attempt, retry after `delay`
    ├── Snooze(delay)        run again after `delay`; the attempt does not count
    └── HandBack             run again on another worker; the attempt does not count
"""

from datetime import timedelta


class PunctualError(Exception):
    """Root of the errors that users see."""


class DefinitionError(PunctualError):
    def __init__(self, field: str, value: object, reason: str, *, owner: str = "") -> None:
        self.field, self.value, self.reason, self.owner = field, value, reason, owner
        where = f"{owner}: " if owner else ""
        super().__init__(f"{where}{field}={value!r}: {reason}")


class UnknownJobError(PunctualError):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"no job is named {name!r}; `manage.py punctual jobs list` shows what there is")


class StaleVersionError(PunctualError):
    def __init__(self, name: str, *, expected: int, actual: int) -> None:
        self.name, self.expected, self.actual = name, expected, actual
        super().__init__(
            f"{name}: version={expected}: the job is at version {actual} now; read it again, then repeat"
        )


class DatabaseAwayError(PunctualError):
    def __init__(self, call: str, error: BaseException) -> None:
        self.call = call
        super().__init__(
            f"{call}: the database does not answer, nothing was scheduled; repeat the call later, with the"
            f" same idempotency_key if it must run once ({type(error).__name__})"
        )


class Steering(PunctualError):
    """Raised by a task to choose its outcome."""


class Cancel(Steering):
    """Stop this run; it is canceled, not failed."""


class NonRetryable(Steering):
    """Fail this run at once, without retries."""


class _Delayed(Steering):
    def __init__(self, delay: timedelta | float, message: str = "") -> None:
        self.delay = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
        super().__init__(message or f"{type(self).__name__} {self.delay}")


class RetryAfter(_Delayed):
    """Fail this attempt and retry after `delay`."""


class Snooze(_Delayed):
    """Run again after `delay`; this attempt does not count."""


class HandBack(Steering):
    """Run again on another worker now, when `ctx.stopping` is true; this attempt does not count."""
