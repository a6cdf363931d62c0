"""Definitions: what runs, when, and how; as code, as rows, as configuration.

What users import:

- `Job`, `scheduled`, `Retry`: declare jobs in a module named `jobs` of an installed app.
- `Context`: what a task is told about its run.
- `Cancel`, `NonRetryable`, `RetryAfter`, `Snooze`: raised by a task to choose its outcome.
- `trigger`, `pause`, `resume`, `next_runs`: act on a job by name.
"""

from typing import TYPE_CHECKING, Any

from jobs.context import Context
from jobs.declare import Job, scheduled
from jobs.errors import (
    Cancel,
    DefinitionError,
    NonRetryable,
    PunctualError,
    RetryAfter,
    Snooze,
    UnknownJobError,
)
from jobs.retry import Retry

if TYPE_CHECKING:
    from jobs.control import next_runs, pause, resume, trigger

__all__ = [
    "Cancel",
    "Context",
    "DefinitionError",
    "Job",
    "NonRetryable",
    "PunctualError",
    "Retry",
    "RetryAfter",
    "Snooze",
    "UnknownJobError",
    "next_runs",
    "pause",
    "resume",
    "scheduled",
    "trigger",
]


def __getattr__(name: str) -> Any:
    # Django imports this package before its models can be; what needs them comes on first use.
    if name in {"next_runs", "pause", "resume", "trigger"}:
        from jobs import control

        return getattr(control, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
