"""Chronex: one string that says when, in which zone, how spread out and how often.

`parse` gives an immutable `Expression` or raises `ChronexError` with every problem it found;
`validate` gives the same findings as data. Neither reads a clock: `@once +d` and `@every` take
their starting point from `reference`.
"""

from schedules.chronex.build import ValidationResult, parse, validate
from schedules.chronex.expression import Expression, Plan
from schedules.chronex.options import Options
from schedules.chronex.trigger import TriggerDefinition
from schedules.errors import ChronexError, Problem

__all__ = [
    "ChronexError",
    "Expression",
    "Options",
    "Plan",
    "Problem",
    "TriggerDefinition",
    "ValidationResult",
    "parse",
    "validate",
]
