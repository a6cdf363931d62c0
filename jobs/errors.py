"""What can go wrong with a definition, and how a task steers its own run.

PunctualError
├── DefinitionError          a declaration, file or form is wrong: .field .value .reason
├── UnknownJobError          no such job: .name
├── StaleVersionError        somebody else changed it first: .name .expected .actual
├── DatabaseAwayError        the database does not answer; nothing can be scheduled: .call
└── Steering                 raised by a task to choose its outcome
    ├── Cancel               stop here, not a failure
    ├── NonRetryable         fail now, whatever the retry policy says
    ├── RetryAfter(delay)    fail this attempt, try again after `delay`
    ├── Snooze(delay)        not now: come back after `delay`, no attempt is used up
    └── HandBack             the worker stops: run it again elsewhere, no attempt is used up
"""

from datetime import timedelta


class PunctualError(Exception):
    """Root of the errors users meet."""


class DefinitionError(PunctualError):
    def __init__(self, field: str, value: object, reason: str, *, owner: str = "") -> None:
        self.field, self.value, self.reason, self.owner = field, value, reason, owner
        where = f"{owner}: " if owner else ""
        super().__init__(f"{where}{field}={value!r}: {reason}")


class UnknownJobError(PunctualError):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"no job is named {name!r}; `manage.py jobs list` shows what there is")


class StaleVersionError(PunctualError):
    def __init__(self, name: str, *, expected: int, actual: int) -> None:
        self.name, self.expected, self.actual = name, expected, actual
        super().__init__(
            f"{name}: version={expected}: the job is at version {actual} now; look at it again, then repeat"
        )


class DatabaseAwayError(PunctualError):
    def __init__(self, call: str, error: BaseException) -> None:
        self.call = call
        super().__init__(
            f"{call}: the database does not answer, so nothing can be scheduled; repeat it when it is back,"
            f" with the same idempotency_key if it must happen once ({type(error).__name__})"
        )


class Steering(PunctualError):
    """Raised by a task to choose its outcome."""


class Cancel(Steering):
    """Stop this run without calling it a failure."""


class NonRetryable(Steering):
    """Fail this run at once; retrying would not help."""


class _Delayed(Steering):
    def __init__(self, delay: timedelta | float, message: str = "") -> None:
        self.delay = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
        super().__init__(message or f"{type(self).__name__} {self.delay}")


class RetryAfter(_Delayed):
    """Fail this attempt and try again after `delay`."""


class Snooze(_Delayed):
    """Come back after `delay`; this attempt does not count."""


class HandBack(Steering):
    """Run this again on another worker, now; this attempt does not count. For when `ctx.stopping` is true."""
