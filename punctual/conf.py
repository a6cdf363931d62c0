"""Read the Django setting `PUNCTUAL`: one dictionary, with a default in code for every key.

Nothing has to be set. A key is one of two kinds:

- a field of `Settings` below. It configures the processes of this installation.
- a setting of the cascade (`punctual.jobs.config`). The dictionary is then the platform layer, which every
  job and task may override; the defaults are the fields of `Config` there.

    PUNCTUAL = {"lease": "1m", "worker_slots": 16, "timezone": "Europe/Berlin"}

Durations are `timedelta` values or texts such as `30s`. `punctual.checks` reports a wrong value when a
process starts; reading it raises ImproperlyConfigured. Environment variables are not read here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar, cast

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from punctual.schedules.durations import parse_duration


@dataclass(frozen=True)
class Settings:
    """How the processes of this installation work; every field is a key of `PUNCTUAL`."""

    # Alias of the database that holds our tables.
    database: str = "default"
    # PostgreSQL: beats and workers plan their statements once per connection. Turn it off behind a pooler
    # that cannot keep prepared statements.
    prepared_statements: bool = True
    # Attempts that all workers together make at once. Due runs are spread over that many messages.
    worker_slots: int = 8
    # Occurrences that may hold a slot at once, over all pools together. None: only the pools' sizes count.
    max_active: int | None = None
    # A claim that was not renewed for this long is lost.
    lease: timedelta = timedelta(seconds=30)
    # From the interruption of a function to the kill of its process.
    kill_after: timedelta = timedelta(seconds=5)
    # From `ctx.canceled` to the interruption of the function.
    cancel_grace: timedelta = timedelta(seconds=10)
    # From SIGTERM to the hand-back of the runs a worker has not finished.
    shutdown_grace: timedelta = timedelta(seconds=30)
    # Time limit of a hook. Past it the hook is interrupted, and after `kill_after` its process is killed.
    hook_timeout: timedelta = timedelta(minutes=1)
    # Hooks that all workers together call at once. None: a quarter of `worker_slots`, at least 2.
    hook_slots: int | None = None
    # A message that no worker took for this long is sent again.
    lost_after: timedelta = timedelta(seconds=30)
    # A second trigger with the same idempotency key, within this time of the first, returns its occurrence.
    idempotency_lifetime: timedelta = timedelta(hours=24)
    # /readyz fails when the newest tick is older. None: twice the beat's own interval.
    oldest_tick: timedelta | None = None


Read = TypeVar("Read")
Key = ParamSpec("Key")


def remember(maxsize: int) -> Callable[[Callable[Key, Read]], Callable[Key, Read]]:
    """Cache a function of PUNCTUAL: workers read it for every message. Tests may change the setting."""

    def decorate(read: Callable[Key, Read]) -> Callable[Key, Read]:
        remembered: Any = lru_cache(maxsize)(read)

        def forget(*, setting: str, **_kwargs: Any) -> None:
            if setting in ("PUNCTUAL", "DATABASES"):
                remembered.cache_clear()

        setting_changed.connect(forget, weak=False)
        return cast("Callable[Key, Read]", remembered)

    return decorate


read_once = remember(1)


@read_once
def current_settings() -> Settings:
    """Return the settings of this installation, the defaults where `PUNCTUAL` does not name a key."""
    given = _given()
    return Settings(**{key: READERS[key](key, given[key]) for key in READERS.keys() & given.keys()})


def cascade_layer() -> dict[str, Any]:
    """Return the platform layer of the cascade as it was written, not yet validated."""
    return {key: value for key, value in _given().items() if key not in READERS}


def _given() -> Mapping[str, Any]:
    given = getattr(settings, "PUNCTUAL", {})
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(f"PUNCTUAL={given!r}: expected a dictionary")
    return given


def _read_alias(key: str, value: object) -> str:
    if not isinstance(value, str) or value not in settings.DATABASES:
        raise _refusal(key, value, "an alias of DATABASES")
    return value


def _read_count(key: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _refusal(key, value, "a whole number of at least 1")
    return value


def _read_optional_count(key: str, value: object) -> int | None:
    return None if value is None else _read_count(key, value)


def _read_flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _refusal(key, value, "True or False")
    return value


def _read_duration(key: str, value: object) -> timedelta:
    duration = _parse(value) if isinstance(value, str) else value
    if not isinstance(duration, timedelta) or duration <= timedelta():
        raise _refusal(key, value, "a duration such as 30s, 5m or 1h30m")
    return duration


def _read_optional_duration(key: str, value: object) -> timedelta | None:
    return None if value is None else _read_duration(key, value)


@lru_cache(maxsize=64)
def _parse(text: str) -> timedelta | None:
    """Parse once: workers read their lease for every message."""
    return parse_duration(text)


def _refusal(key: str, value: object, expected: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(f"PUNCTUAL[{key!r}]={value!r}: expected {expected}")


READERS: Mapping[str, Callable[[str, object], Any]] = {
    field.name: _read_duration for field in fields(Settings)
} | {
    "database": _read_alias,
    "prepared_statements": _read_flag,
    "worker_slots": _read_count,
    "max_active": _read_optional_count,
    "hook_slots": _read_optional_count,
    "oldest_tick": _read_optional_duration,
}
