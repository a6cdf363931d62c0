"""Decide the start time of a request, the same on every machine.

Order of checks: identity, window, mode, distribution and its parameters, seed strategy, constraints,
zone. `zoneinfo` supplies the zone database: the system's, else the `tzdata` package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from punctual.schedules.errors import DecisionError, UnknownZoneError
from punctual.schedules.kron.constraints import Constraints, Rules
from punctual.schedules.kron.distributions import UNIFORM, Distribution, Transform, transform
from punctual.schedules.kron.generator import SplitMix64, encode_identity, seed_digest
from punctual.schedules.text import clip, is_unicode
from punctual.schedules.utc import rfc3339, utc
from punctual.schedules.wall_clock.zones import Zone, find_zone

VERSION = "1.0.0"
MAX_ATTEMPTS = 64
WINDOW_MODES = ("after", "around")
SEED_STRATEGIES = ("stable", "daily", "weekly")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NS_PER_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    identity: str
    nominal_time: datetime
    timezone: str = "UTC"
    window_mode: str = "after"
    window_duration: timedelta = timedelta()
    distribution: Distribution = UNIFORM
    seed_strategy: str = "stable"
    salt: str = ""
    constraints: Constraints = field(default_factory=Constraints)


@dataclass(frozen=True, slots=True)
class ConstraintMeta:
    """How many candidates were drawn until one was admitted or the limit was reached."""

    attempts: int


@dataclass(frozen=True, slots=True)
class DecisionResult:
    period_id: str
    nominal_time: datetime
    window_start: datetime
    window_end: datetime
    chosen_time: datetime | None
    seed_hash: str
    distribution: Distribution
    constraint_meta: ConstraintMeta
    unschedulable: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """A job's setting: how start times are spread around the nominal times of its schedule."""

    window_mode: str = "after"
    window_duration: timedelta = timedelta()
    distribution: Distribution = UNIFORM
    seed_strategy: str = "stable"
    salt: str = ""
    constraints: Constraints = field(default_factory=Constraints)

    def request(self, identity: str, nominal: datetime, timezone: str = "UTC") -> DecisionRequest:
        return DecisionRequest(
            identity,
            nominal,
            timezone,
            self.window_mode,
            self.window_duration,
            self.distribution,
            self.seed_strategy,
            self.salt,
            self.constraints,
        )

    def decide(self, identity: str, nominal: datetime, timezone: str = "UTC") -> DecisionResult:
        """Decide when an occurrence starts; an `around` window may begin before the nominal time."""
        return decide(self.request(identity, nominal, timezone))


def decide(request: DecisionRequest) -> DecisionResult:
    """Choose a time inside the window, or return an unschedulable result with the reason."""
    shape, rules, zone = _check(request)
    nominal = utc(request.nominal_time, "nominal_time")
    period_id = rfc3339(nominal.replace(microsecond=0))
    digest = seed_digest(request.identity, _key(request, nominal, zone, period_id), request.salt)
    start, end = _window(nominal, request.window_mode, request.window_duration)
    seconds = (end - start) // timedelta(seconds=1)
    offset, attempts = _choose(SplitMix64(digest), shape, seconds, _admission_test(rules, zone, start))
    return DecisionResult(
        period_id,
        nominal,
        start,
        end,
        None if offset is None else start + timedelta(seconds=offset),
        digest.hex(),
        request.distribution,
        ConstraintMeta(attempts),
        offset is None,
        _unschedulable_reason(attempts) if offset is None else "",
    )


def _check(request: DecisionRequest) -> tuple[Transform, Rules, Zone]:
    """Check the request in the documented order."""
    if not encode_identity(request.identity):
        raise DecisionError("invalid_identity", "identity: must not be empty", field="identity")
    _check_type("invalid_window", "window_duration", request.window_duration, timedelta)
    if request.window_duration < timedelta():
        value = str(request.window_duration)
        message = f"window_duration: must not be negative, got {value}"
        raise DecisionError("invalid_window", message, field="window_duration", value=value)
    _check_choice("invalid_window_mode", "window_mode", request.window_mode, WINDOW_MODES)
    _check_type("invalid_distribution", "distribution", request.distribution, Distribution)
    shape = transform(request.distribution)
    _check_choice("invalid_seed_strategy", "seed_strategy", request.seed_strategy, SEED_STRATEGIES)
    _check_salt(request.salt)
    _check_type("invalid_constraint", "constraints", request.constraints, Constraints)
    rules = request.constraints.compile()
    _check_type("invalid_timezone", "timezone", request.timezone, str)
    try:
        return shape, rules, find_zone(request.timezone)
    except UnknownZoneError as error:
        raise DecisionError("invalid_timezone", error.message, field="timezone", value=error.value) from None


def _check_type(kind: str, field: str, value: object, expected: type) -> None:
    if not isinstance(value, expected):
        text = clip(value)
        message = f"{field}: expected a {expected.__name__}, got {text}"
        raise DecisionError(kind, message, field=field, value=text)


def _check_salt(salt: object) -> None:
    """The salt is part of the seed, as the strategy is."""
    if not isinstance(salt, str) or not is_unicode(salt):
        value = clip(ascii(salt))
        message = f"salt: expected a text without lone surrogates, got {value}"
        raise DecisionError("invalid_seed_strategy", message, field="salt", value=value)


def _check_choice(kind: str, field: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        message = f"{field}: expected one of {', '.join(known)}, got '{clip(value)}'"
        raise DecisionError(kind, message, field=field, value=clip(value))


def _key(request: DecisionRequest, nominal: datetime, zone: Zone, period_id: str) -> str:
    if request.seed_strategy == "stable":
        return period_id
    local = nominal + zone.offset_at(nominal)
    if request.seed_strategy == "daily":
        return local.date().isoformat()
    year, week, _ = local.isocalendar()
    return f"{year:04d}-W{week:02d}"


def _window(nominal: datetime, mode: str, duration: timedelta) -> tuple[datetime, datetime]:
    """Compute the window in nanoseconds, then round both bounds down to seconds."""
    start = (nominal - _EPOCH) // _MICROSECOND * 1000
    length = duration // _MICROSECOND * 1000
    if mode == "around":
        start -= length // 2
    try:
        return _at_second(start), _at_second(start + length)
    except OverflowError:
        message = f"window_duration: {duration} leaves the calendar"
        raise DecisionError("invalid_window", message, field="window_duration", value=str(duration)) from None


def _at_second(nanoseconds: int) -> datetime:
    return _EPOCH + timedelta(seconds=nanoseconds // _NS_PER_SECOND)


def _choose(
    generator: SplitMix64, shape: Transform, seconds: int, admits: Callable[[int], bool]
) -> tuple[int | None, int]:
    """Draw offsets until one is admitted; return it and the number of draws."""
    if not seconds:
        return (0 if admits(0) else None), 0
    for attempt in range(1, MAX_ATTEMPTS + 1):
        offset = min(int(shape(generator.next_unit()) * (seconds + 1)), seconds)
        if admits(offset):
            return offset, attempt
    return None, MAX_ATTEMPTS


def _admission_test(rules: Rules, zone: Zone, start: datetime) -> Callable[[int], bool]:
    if not rules.only and not rules.avoid:
        return lambda _offset: True

    def admits(offset: int) -> bool:
        candidate = start + timedelta(seconds=offset)
        return rules.admit(candidate + zone.offset_at(candidate))

    return admits


def _unschedulable_reason(attempts: int) -> str:
    if not attempts:
        return "the constraints refuse the only time of the window"
    return f"the constraints refused all {attempts} candidates"
