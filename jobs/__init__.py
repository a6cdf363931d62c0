"""Definitions: what runs, when, and how; as code, as rows, as configuration.

What users import:

- `Job`, `scheduled`, `Retry`: declare jobs in a module named `jobs` of an installed app.
- `Context`: what a task is told about its run.
- `Cancel`, `NonRetryable`, `RetryAfter`, `Snooze`, `HandBack`: raised by a task to choose its outcome.
- `trigger`, `start`, `stop`, `pause`, `resume`, `next_run`, `next_runs`, `is_active`, `is_enabled`,
  `is_paused`, `is_running`: act on a job by name.
"""

from typing import TYPE_CHECKING, Any

from jobs.context import Context
from jobs.declare import Job, scheduled
from jobs.errors import (
    Cancel,
    DefinitionError,
    HandBack,
    NonRetryable,
    PunctualError,
    RetryAfter,
    Snooze,
    StaleVersionError,
    UnknownJobError,
)
from jobs.retry import Retry

if TYPE_CHECKING:
    from jobs.control import (
        is_active,
        is_enabled,
        is_paused,
        is_running,
        next_run,
        next_runs,
        pause,
        reschedule,
        resume,
        skip_next,
        start,
        stop,
        trigger,
    )

__all__ = [
    "Cancel",
    "Context",
    "DefinitionError",
    "HandBack",
    "Job",
    "NonRetryable",
    "PunctualError",
    "Retry",
    "RetryAfter",
    "Snooze",
    "StaleVersionError",
    "UnknownJobError",
    "is_active",
    "is_enabled",
    "is_paused",
    "is_running",
    "next_run",
    "next_runs",
    "pause",
    "reschedule",
    "resume",
    "scheduled",
    "skip_next",
    "start",
    "stop",
    "trigger",
]


CONTROLS = frozenset(
    {
        "is_active",
        "is_enabled",
        "is_paused",
        "is_running",
        "next_run",
        "next_runs",
        "pause",
        "resume",
        "skip_next",
        "reschedule",
        "start",
        "stop",
        "trigger",
    }
)


def __getattr__(name: str) -> Any:
    # Django imports this package before its models can be; what needs them comes on first use.
    if name in CONTROLS:
        from jobs import control

        return getattr(control, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
