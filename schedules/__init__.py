"""Parse schedule texts and compute their instants. Standard library only: no Django, no clock.

    from punctual import schedules

    schedules.parse("TZ=Europe/Berlin 0 9 * * MON-FRI").next_after(instant)

Invariants of every kind of schedule:
- `next_after` is exclusive: its result is later than its argument, and aware in UTC.
- `between(start, end)` covers (start, end] and equals repeated `next_after`.
- Values are immutable; equal inputs give equal results on every machine.
- Bad text raises a `ScheduleError` that carries field, value and position, and no other exception.
- A schedule with no further instant returns None; it does not raise. (`posix.PosixCron` raises
  `CronCalculationError` instead, as its specification demands.)

| question | module |
|---|---|
| which kinds of text are there, how is one added? | `kinds` |
| what does one kind accept? | `chronex`, `posix`, `iso8601`, `once`, `delay`, `krontab` |
| how are starts spread over a window? | `kron` |
| what happens at a daylight saving change? | `wall_clock` |
| how is a schedule limited to a start and an end? | `bounds` |
| what keeps a user's own kind within its contract and its time? | `custom` |
| what did the author of a wrong text probably mean? | `suggestions` |
| how is a schedule shown to a person? | `explanation`, `description` (`english`), `findings` (lint) |
| durations, instants, limits on text, errors | `durations`, `utc`, `text`, `errors` |
"""

from punctual.schedules.bounds import Bounded, bound, is_within, unbounded
from punctual.schedules.chronex import (
    Expression,
    Options,
    Plan,
    TriggerDefinition,
    ValidationResult,
    validate,
)
from punctual.schedules.delay import FixedDelay
from punctual.schedules.description import describe
from punctual.schedules.errors import (
    ChronexError,
    CronCalculationError,
    CustomScheduleError,
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
from punctual.schedules.explanation import Explanation, Fire, Start, Trigger, explain
from punctual.schedules.findings import Finding, lint
from punctual.schedules.kinds import Schedule, kind_names, parse, register

__all__ = [
    "Bounded",
    "ChronexError",
    "CronCalculationError",
    "CustomScheduleError",
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
    "Start",
    "Trigger",
    "TriggerDefinition",
    "TriggerDefinitionError",
    "UnknownKindError",
    "UnknownZoneError",
    "ValidationResult",
    "bound",
    "describe",
    "explain",
    "is_within",
    "kind_names",
    "lint",
    "parse",
    "register",
    "unbounded",
    "validate",
]
