"""Deterministic decisions: choose one reproducible start time inside a window.

The same request gives the same start time on every machine. `decision` makes the choice from a seeded
generator (`generator`), bends it by a distribution (`distributions`) and keeps to `constraints`;
`modifiers` reads and writes the text form that `krontab` and a job's spread setting use.

An invalid request raises `DecisionError`; a window without an admissible time is not an error, but a
result with `unschedulable` set. `VERSION` is semantic: a change that moves a chosen time for an
unchanged request raises the major number.
"""

from punctual.schedules.kron.constraints import Constraints
from punctual.schedules.kron.decision import (
    MAX_ATTEMPTS,
    VERSION,
    ConstraintMeta,
    DecisionRequest,
    DecisionResult,
    Spread,
    decide,
)
from punctual.schedules.kron.distributions import Distribution

__all__ = [
    "MAX_ATTEMPTS",
    "VERSION",
    "ConstraintMeta",
    "Constraints",
    "DecisionRequest",
    "DecisionResult",
    "Distribution",
    "Spread",
    "decide",
]
