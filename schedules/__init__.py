"""Schedule text in -> instants out: pure, exact, without a clock.

    schedules.parse("TZ=Europe/Berlin 0 9 * * MON-FRI").next_after(instant)

Invariants of every kind:
- `next_after` is exclusive and strictly later than its argument; results are UTC-aware.
- `between(start, end)` is over (start, end] and equals repeated `next_after`.
- Values are immutable; equal inputs give equal results on every machine.
- Bad text raises a `ScheduleError` that names field, value and position, and nothing else.
"""

from schedules.bounds import Bounded, bounded
from schedules.chronex import Expression, Options, Plan, TriggerDefinition, ValidationResult, validate
from schedules.delay import FixedDelay
from schedules.describe import describe
from schedules.errors import (
    ChronexError,
    CronCalculationError,
    DecisionError,
    DelayError,
    InvalidCronExpressionError,
    Iso8601Error,
    KrontabError,
    NaiveInstantError,
    Problem,
    ScheduleError,
    TriggerDefinitionError,
    UnknownKindError,
    UnknownZoneError,
)
from schedules.explain import Explanation, Fire, explain
from schedules.lint import Finding, lint
from schedules.registry import Schedule, kinds, parse, register

__all__ = [
    "Bounded",
    "ChronexError",
    "CronCalculationError",
    "DecisionError",
    "DelayError",
    "Explanation",
    "Expression",
    "Finding",
    "Fire",
    "FixedDelay",
    "InvalidCronExpressionError",
    "Iso8601Error",
    "KrontabError",
    "NaiveInstantError",
    "Options",
    "Plan",
    "Problem",
    "Schedule",
    "ScheduleError",
    "TriggerDefinition",
    "TriggerDefinitionError",
    "UnknownKindError",
    "UnknownZoneError",
    "ValidationResult",
    "bounded",
    "describe",
    "explain",
    "kinds",
    "lint",
    "parse",
    "register",
    "validate",
]
