"""Deterministic decisions: identity, period and window in -> one reproducible start time out.

`VERSION` is semantic: whatever moves a chosen time for an unchanged request raises its first number.
"""

from schedules.kron.constraints import Constraints
from schedules.kron.decision import (
    MAX_ATTEMPTS,
    VERSION,
    ConstraintMeta,
    DecisionRequest,
    DecisionResult,
    Spread,
    decide,
)
from schedules.kron.distributions import Distribution

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
