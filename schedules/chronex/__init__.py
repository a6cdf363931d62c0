"""The default kind, Chronex: calendar pattern or interval, zone and options in one text.

`parse` returns an immutable `Expression` or raises `ChronexError` with every problem of the text;
`validate` returns the same problems as data. Neither reads a clock: `@once +d` and `@every` count
from `reference`.

A text passes through `parser` (text to draft: `numeric_fields`, `day_fields`, `options`), then `compiler`
(draft, zone and reference to `expression`). Problems and their codes are in `error_codes`; `trigger` and
`schema` read trigger definitions in JSON.
"""

from punctual.schedules.chronex.compiler import ValidationResult, parse, validate
from punctual.schedules.chronex.expression import Expression, Plan
from punctual.schedules.chronex.options import Options
from punctual.schedules.chronex.trigger import TriggerDefinition
from punctual.schedules.errors import ChronexError, Problem

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
