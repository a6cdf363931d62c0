"""Distributions of start times inside a window."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from punctual.schedules.errors import DecisionError
from punctual.schedules.text import clip

Transform = Callable[[float], float]
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_DEFAULT_SHAPE = "2"
NAMES = ("uniform", "skewEarly", "skewLate")


@dataclass(frozen=True, slots=True)
class Distribution:
    """A name and its parameters; parameters are text, so that equal requests print equally."""

    name: str
    params: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))

    def __hash__(self) -> int:
        return hash((self.name, frozenset(self.params.items())))

    def __reduce__(self) -> tuple[type[Distribution], tuple[str, dict[str, str]]]:
        return Distribution, (self.name, dict(self.params))  # a mapping proxy cannot be pickled


UNIFORM = Distribution("uniform")


def transform(distribution: Distribution) -> Transform:
    """The function that maps a uniform number in [0, 1) to the distribution."""
    if distribution.name not in NAMES:
        raise _refusal("distribution", distribution.name, f"expected one of {', '.join(NAMES)}")
    unknown = sorted(set(distribution.params) - ({"shape"} if distribution.name != "uniform" else set()))
    if unknown:
        raise _refusal(f"distribution.{unknown[0]}", distribution.params[unknown[0]], "unknown parameter")
    if distribution.name == "uniform":
        return _identity
    shape = _shape(distribution.params.get("shape", _DEFAULT_SHAPE))
    if distribution.name == "skewEarly":
        return lambda unit: unit**shape
    return lambda unit: 1.0 - (1.0 - unit) ** shape


def _identity(unit: float) -> float:
    return unit


def _shape(text: str) -> float:
    shape = float(text) if _DECIMAL.fullmatch(text) else 0.0
    if shape <= 0.0:
        raise _refusal("distribution.shape", text, "must be a positive decimal number")
    return shape


def _refusal(field: str, value: str, reason: str) -> DecisionError:
    text = clip(value)
    message = f"{field}: {reason}, got '{text}'"
    return DecisionError("invalid_distribution", message, field=field, value=text)
