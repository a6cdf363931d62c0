"""Combine layers of overrides into the configuration that a job, a task or an occurrence runs with."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import Any

from punctual.conf import cascade_layer, read_once, remember
from punctual.jobs.config.choices import FailureStrategy, Mode, Overlap, Recovery, Update
from punctual.jobs.config.keys import KEYS, TASK_KEYS, Json, normalize, read_setting
from punctual.jobs.config.policy import policy_layer
from punctual.jobs.config.retry import Retry
from punctual.jobs.errors import DefinitionError
from punctual.jobs.models import Job, Task

RECOVERY_BOUNDS = ("recovery_max_occurrences", "recovery_max_duration")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Every setting with its default; `origins` names the layer each override came from."""

    timezone: str = "UTC"
    overlap: Overlap = Overlap.SKIP
    mode: Mode = Mode.SEQUENTIAL
    failure_strategy: FailureStrategy = FailureStrategy.FAIL_FAST
    retry: Retry = Retry(3, timedelta(seconds=30), backoff=2.0)
    execution_timeout: timedelta = timedelta(hours=1)
    task_timeout: timedelta = timedelta(minutes=5)
    dispatch_timeout: timedelta | None = None
    recovery: Recovery = Recovery.EXECUTE_LAST
    recovery_max_occurrences: int | None = None
    recovery_max_duration: timedelta | None = None
    recovery_rate: str | None = "10/m"
    misfire_grace: timedelta = timedelta(seconds=60)
    pool: str = "default"
    priority: int = 0
    queue: str = "default"
    bundle: bool = True
    spread: str | None = None
    update_policy: Update = Update.IMMEDIATE
    retention: timedelta | None = None
    secret_args: tuple[str, ...] = ()
    on_start: tuple[str, ...] = ()
    on_complete: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)

    def to_json(self, keys: frozenset[str] | None = None) -> dict[str, Json]:
        """Return the settings, or those in `keys`, as a JSON object of its own."""
        return dict(_config_json(self, keys))

    @cached_property
    def snapshot(self) -> dict[str, Json]:
        """All settings as one JSON object that is shared between callers: do not change it."""
        return _config_json(self, None)

    def origin(self, key: str) -> str:
        """Name the layer that set this value.

        One of `default`, `platform`, `schedule`, `job`, `task` and `occurrence`.
        """
        return self.origins.get(key, "default")


@lru_cache(maxsize=4096)
def _config_json(config: Config, keys: frozenset[str] | None) -> dict[str, Json]:
    return {key: KEYS[key].dump(getattr(config, key)) for key in sorted(keys or KEYS)}


def merge_layers(layers: Mapping[str, Mapping[str, Json]]) -> Config:
    """Merge named layers, least specific first."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer, overrides in layers.items():
        if not isinstance(overrides, Mapping):  # raw SQL can store any JSON
            raise DefinitionError(layer, overrides, "expected a mapping of settings")
        for key, value in overrides.items():
            values[key] = read_setting(key, value, owner=layer)
            origins[key] = layer
    return Config(**values, origins=origins)


def load_snapshot(snapshot: Mapping[str, Json]) -> Config:
    """Return the configuration that was stored with an occurrence or a run."""
    return merge_layers({"snapshot": snapshot})


def job_config(job: Job, overrides: Mapping[str, Any] | None = None) -> Config:
    """Return the configuration of a job; `overrides` are those of one occurrence, the most specific layer."""
    layers = {
        "platform": platform(),
        "schedule": policy_layer(job.schedule),
        "job": job.config,
        "occurrence": overrides or {},
    }
    return _merge_json(json.dumps(layers))


def task_config(job: Job, task: Task, overrides: Mapping[str, Any] | None = None) -> Config:
    """Return the configuration of a task of a job."""
    layers = {"platform": platform(), "job": job.config, "task": task.config, "occurrence": overrides or {}}
    return _merge_json(json.dumps(layers))


@remember(4096)
def stored_config(job: str) -> Config:
    """Return the configuration of a job from the JSON text of its column."""
    return merge_layers({"platform": platform(), "job": json.loads(job)})


@remember(4096)
def stored_policy(job: str, task: str, overrides: str = "{}") -> dict[str, Json]:
    """Return the settings of a run from the JSON texts of the columns; shared between callers.

    Most jobs share a handful of configurations, and a batch asks for the same ones again and again.
    """
    texts = {"job": job, "task": task, "occurrence": overrides}
    stored = {layer: json.loads(text) for layer, text in texts.items()}
    return _config_json(merge_layers({"platform": platform(), **stored}), TASK_KEYS)


@lru_cache(maxsize=4096)
def _merge_json(layers: str) -> Config:
    return merge_layers(json.loads(layers))


@read_once
def platform() -> dict[str, Any]:
    """Return the overrides of this installation; do not change them."""
    return normalize(cascade_layer(), owner="PUNCTUAL")


def check_combination(overrides: Mapping[str, Any], *, owner: str) -> None:
    """Refuse settings of a job that contradict each other, or that have no effect beside the platform's."""
    bounds = [key for key in RECOVERY_BOUNDS if overrides.get(key) is not None]
    if not bounds and "recovery" not in overrides:
        return
    config = merge_layers({"platform": platform(), "job": overrides})
    bounded = config.recovery is Recovery.BOUNDED_WINDOW
    if bounds and not bounded:
        reason = f"has an effect only with recovery=bounded_window; here it is {config.recovery}"
        raise DefinitionError(bounds[0], overrides[bounds[0]], reason, owner=owner)
    if bounded and config.recovery_max_occurrences is None and config.recovery_max_duration is None:
        reason = f"needs {' or '.join(RECOVERY_BOUNDS)}"
        raise DefinitionError("recovery", str(config.recovery), reason, owner=owner)
