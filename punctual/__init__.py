"""Punctual: the Django-native job scheduler that can prove what it ran.

What users import from here:

- `Job`, `scheduled`, `Retry`, `hook`: declare jobs and hooks, in a module named `jobs` of an installed app.
- `Context`: what a task knows about its run.
- `Cancel`, `NonRetryable`, `RetryAfter`, `Snooze`, `HandBack`: raised by a task to choose its outcome.
- `trigger`, `start`, `stop`, `pause`, `resume`, `skip_next`, `reschedule`, `next_run`, `next_runs`,
  `is_active`, `is_enabled`, `is_paused`, `is_running`: operate a job by name.

`punctual.schedules` (schedule text in, instants out), `punctual.polling` (the declarative scheduler) and
`punctual.testing` (a fixture for tests of your own jobs) are public as well. Everything else is internal.

Names are loaded on first use, so that `import punctual.schedules` needs neither Django nor Celery.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from punctual.jobs.config.retry import Retry
    from punctual.jobs.context import Context
    from punctual.jobs.control import (
        is_active,
        is_enabled,
        is_paused,
        is_running,
        next_run,
        next_runs,
        reschedule,
        skip_next,
    )
    from punctual.jobs.declaration.decorators import Job, hook, scheduled
    from punctual.jobs.errors import (
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
    from punctual.operations.job_requests import pause, resume, start, stop, trigger

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
    "hook",
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

_MODULES = {
    "Context": "punctual.jobs.context",
    "Job": "punctual.jobs.declaration.decorators",
    "Retry": "punctual.jobs.config.retry",
    "hook": "punctual.jobs.declaration.decorators",
    "scheduled": "punctual.jobs.declaration.decorators",
    **dict.fromkeys(
        (
            "Cancel",
            "DefinitionError",
            "HandBack",
            "NonRetryable",
            "PunctualError",
            "RetryAfter",
            "Snooze",
            "StaleVersionError",
            "UnknownJobError",
        ),
        "punctual.jobs.errors",
    ),
    **dict.fromkeys(("pause", "resume", "start", "stop", "trigger"), "punctual.operations.job_requests"),
}
_CONTROLS = "punctual.jobs.control"  # every other name


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, _CONTROLS)), name)


def __dir__() -> list[str]:
    return sorted(__all__)
