"""Layers of overrides → the effective configuration, each value with the layer it came from (JOB-2).

Most specific wins, unset inherits: defaults → platform (settings.PUNCTUAL) → job → task → occurrence.
Only overrides are stored, as JSON; `normalized` is the one gate through which they enter.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from typing import Any
from zoneinfo import ZoneInfo

from jobs.durations import duration, format_duration
from jobs.errors import DefinitionError
from jobs.retry import Retry
from schedules import ScheduleError, krontab

Json = Any
LONGEST_NAME = 100
MOST_PRIORITY = 1000
MOST_RECOVERED = 100_000


class Mode(StrEnum):
    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"


class Overlap(StrEnum):
    SKIP = "skip"
    ALLOW = "allow"
    QUEUE = "queue"
    REPLACE = "replace"
    QUEUE_LATEST = "queue_latest"


class FailureStrategy(StrEnum):
    FAIL_FAST = "fail_fast"
    CONTINUE = "continue"
    RETRY_ON_FAILURE = "retry_on_failure"


class Recovery(StrEnum):
    EXECUTE_ALL = "execute_all"
    EXECUTE_LAST = "execute_last"
    MARK_AS_MISSED = "mark_as_missed"
    BOUNDED_WINDOW = "bounded_window"
    COMPRESSED = "compressed"


@dataclass(frozen=True, kw_only=True)
class Config:
    """What a job, a task or an occurrence runs with."""

    timezone: str = "UTC"
    overlap: Overlap = Overlap.SKIP
    mode: Mode = Mode.SEQUENTIAL
    failure_strategy: FailureStrategy = FailureStrategy.FAIL_FAST
    retry: Retry = Retry(3, timedelta(seconds=30), backoff=2.0)
    execution_timeout: timedelta = timedelta(hours=1)
    task_timeout: timedelta = timedelta(minutes=5)
    recovery: Recovery = Recovery.EXECUTE_LAST
    recovery_max_occurrences: int | None = None
    recovery_max_duration: timedelta | None = None
    misfire_grace: timedelta = timedelta(seconds=60)
    pool: str = "default"
    priority: int = 0
    queue: str = "default"
    bundle: bool = True
    spread: str | None = None
    retention: timedelta | None = None
    secret_args: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)

    def dumped(self, keys: frozenset[str] | None = None) -> dict[str, Json]:
        return dict(_dumped(self, keys))

    @cached_property
    def stored(self) -> dict[str, Json]:
        """The whole of it as JSON, made once: whoever changes it changes it for everybody."""
        return _dumped(self, None)

    def origin(self, key: str) -> str:
        return self.origins.get(key, "default")


@lru_cache(maxsize=4096)
def _dumped(config: Config, keys: frozenset[str] | None) -> dict[str, Json]:
    return {key: KEYS[key].dump(getattr(config, key)) for key in sorted(keys or KEYS)}


@dataclass(frozen=True)
class Key:
    """How one setting is read from JSON or Python, and written as JSON."""

    read: Callable[[Any], Any]
    dump: Callable[[Any], Json] = lambda value: value


def _choice(kind: type[StrEnum], value: object) -> StrEnum:
    try:
        return kind(str(value))
    except ValueError:
        raise ValueError(f"expected one of {', '.join(kind)}") from None


def _zone(value: object) -> str:
    try:
        return ZoneInfo(str(value)).key
    except (ValueError, OSError, KeyError):
        raise ValueError("expected an IANA time zone such as Europe/Berlin") from None


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("expected a whole number of at least 1")
    return value


def _recovered(value: object) -> int:
    if _count(value) > MOST_RECOVERED:
        raise ValueError(f"expected a whole number from 1 to {MOST_RECOVERED}")
    return _count(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("expected true or false")
    return value


def _name(value: object) -> str:
    if (
        not isinstance(value, str)
        or not value.strip()
        or len(value) > LONGEST_NAME
        or not value.isprintable()
    ):
        raise ValueError(f"expected a name of 1 to {LONGEST_NAME} printable characters")
    return value


def _priority(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MOST_PRIORITY:
        raise ValueError(f"expected a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}")
    return value


def _spread(value: object) -> str:
    try:
        krontab.parse_spread(str(value))
    except ScheduleError as error:
        raise ValueError(f"expected modifiers such as @win(after,1h) @dist(uniform): {error}") from None
    return str(value)


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError("expected a list of names")
    return tuple(sorted({_name(item) for item in value}))


def _retry(value: object) -> Retry:
    if isinstance(value, Retry):
        return value
    if isinstance(value, Mapping):
        return Retry.load(value)
    raise ValueError("expected Retry(max_retries, interval, ...) or its fields")


def _optional(read: Callable[[Any], Any], value: object) -> Any:
    return None if value is None else read(value)


def _dump_optional(value: timedelta | None) -> str | None:
    return None if value is None else format_duration(value)


KEYS: Mapping[str, Key] = {
    "timezone": Key(_zone),
    "overlap": Key(partial(_choice, Overlap), str),
    "mode": Key(partial(_choice, Mode), str),
    "failure_strategy": Key(partial(_choice, FailureStrategy), str),
    "retry": Key(_retry, Retry.dumped),
    "execution_timeout": Key(duration, format_duration),
    "task_timeout": Key(duration, format_duration),
    "recovery": Key(partial(_choice, Recovery), str),
    "recovery_max_occurrences": Key(partial(_optional, _recovered)),
    "recovery_max_duration": Key(partial(_optional, duration), _dump_optional),
    "misfire_grace": Key(duration, format_duration),
    "pool": Key(_name),
    "priority": Key(_priority),
    "queue": Key(_name),
    "bundle": Key(_flag),
    "spread": Key(partial(_optional, _spread)),
    "retention": Key(partial(_optional, duration), _dump_optional),
    "secret_args": Key(_names, list),
}
TASK_KEYS = frozenset({"failure_strategy", "retry", "task_timeout", "queue", "bundle"})


def normalized(
    overrides: Mapping[str, Any], *, owner: str, keys: frozenset[str] = frozenset(KEYS)
) -> dict[str, Json]:
    """The overrides as stored JSON; DefinitionError names the first key that is wrong."""
    read = {key: _read(key, value, owner=owner, keys=keys) for key, value in sorted(overrides.items())}
    return {key: KEYS[key].dump(value) for key, value in read.items()}


def _read(key: str, value: Any, *, owner: str, keys: frozenset[str]) -> Any:
    if key not in keys:
        reason = f"unknown setting; expected one of {', '.join(sorted(keys))}"
        raise DefinitionError(key, value, reason, owner=owner)
    try:
        return KEYS[key].read(value)
    except (ValueError, TypeError) as error:
        raise DefinitionError(key, value, str(error), owner=owner) from None


def effective(layers: Mapping[str, Mapping[str, Json]]) -> Config:
    """Named layers, least specific first → one configuration that knows where each value is from."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer, overrides in layers.items():
        if not isinstance(overrides, Mapping):  # rows can be edited by any road
            raise DefinitionError(layer, overrides, "expected a mapping of settings")
        for key, value in overrides.items():
            values[key] = _read(key, value, owner=layer, keys=frozenset(KEYS))
            origins[key] = layer
    return Config(**values, origins=origins)


def loaded(snapshot: Mapping[str, Json]) -> Config:
    """A snapshot stored with an occurrence or a run → the configuration it runs with."""
    return effective({"snapshot": snapshot})
