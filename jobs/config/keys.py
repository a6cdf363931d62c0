"""Read each setting from Python or JSON, check it, and write it as JSON."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from punctual.jobs.config.bounded_duration import duration, format_duration
from punctual.jobs.config.choices import FailureStrategy, Mode, Overlap, Recovery, Update
from punctual.jobs.config.rate import read_rate
from punctual.jobs.config.retry import Retry
from punctual.jobs.errors import DefinitionError
from punctual.schedules import ScheduleError, krontab

Json = Any
MAX_NAME_LENGTH = 100
MAX_PRIORITY = 1000
MAX_RECOVERED = 100_000
MAX_HOOKS = 20  # of one event
MAX_HOOK_LENGTH = 500


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


def _recovery_limit(value: object) -> int:
    if _count(value) > MAX_RECOVERED:
        raise ValueError(f"expected a whole number from 1 to {MAX_RECOVERED}")
    return _count(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("expected true or false")
    return value


def _name(value: object) -> str:
    if (
        not isinstance(value, str)
        or not value.strip()
        or len(value) > MAX_NAME_LENGTH
        or not value.isprintable()
    ):
        raise ValueError(f"expected a name of 1 to {MAX_NAME_LENGTH} printable characters")
    return value


def _priority(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_PRIORITY:
        raise ValueError(f"expected a whole number from -{MAX_PRIORITY} to {MAX_PRIORITY}")
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


def _hooks(value: object) -> tuple[str, ...]:
    """Names of registered hooks in the order of their calls; whether code registers them is asked later."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError("expected a list of names of registered hooks")
    names = list(value)
    for name in names:
        if not isinstance(name, str) or not 1 <= len(name) <= MAX_HOOK_LENGTH or not name.isprintable():
            raise ValueError(f"expected names of registered hooks, of 1 to {MAX_HOOK_LENGTH} characters")
    if len(names) > MAX_HOOKS:
        raise ValueError(f"expected at most {MAX_HOOKS} hooks")
    return tuple(dict.fromkeys(names))


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
    "retry": Key(_retry, Retry.to_json),
    "execution_timeout": Key(duration, format_duration),
    "task_timeout": Key(duration, format_duration),
    "dispatch_timeout": Key(partial(_optional, duration), _dump_optional),
    "recovery": Key(partial(_choice, Recovery), str),
    "recovery_max_occurrences": Key(partial(_optional, _recovery_limit)),
    "recovery_max_duration": Key(partial(_optional, duration), _dump_optional),
    "recovery_rate": Key(partial(_optional, read_rate)),
    "misfire_grace": Key(duration, format_duration),
    "pool": Key(_name),
    "priority": Key(_priority),
    "queue": Key(_name),
    "bundle": Key(_flag),
    "spread": Key(partial(_optional, _spread)),
    "update_policy": Key(partial(_choice, Update), str),
    "retention": Key(partial(_optional, duration), _dump_optional),
    "secret_args": Key(_names, list),
    "on_start": Key(_hooks, list),
    "on_complete": Key(_hooks, list),
}
TASK_KEYS = frozenset({"failure_strategy", "retry", "task_timeout", "dispatch_timeout", "queue", "bundle"})


def normalize(
    overrides: Mapping[str, Any], *, owner: str, keys: frozenset[str] = frozenset(KEYS)
) -> dict[str, Json]:
    """Return the overrides as JSON to store; DefinitionError names the first setting that is wrong."""
    values = {
        key: read_setting(key, value, owner=owner, keys=keys) for key, value in sorted(overrides.items())
    }
    return {key: KEYS[key].dump(value) for key, value in values.items()}


def read_setting(key: str, value: Any, *, owner: str, keys: frozenset[str] = frozenset(KEYS)) -> Any:
    """Read one setting; DefinitionError says what is allowed."""
    if key not in keys:
        reason = f"unknown setting; expected one of {', '.join(sorted(keys))}"
        raise DefinitionError(key, value, reason, owner=owner)
    try:
        return KEYS[key].read(value)
    except (ValueError, TypeError) as error:
        raise DefinitionError(key, value, str(error), owner=owner) from None
