"""A job's row → its schedule as a pure value, and the instants it names."""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Any

from django.conf import settings

import schedules
from jobs.config import Config, effective, normalized
from jobs.models import Job, Task


def job_config(job: Job, overrides: Mapping[str, Any] | None = None) -> Config:
    """`overrides` are those of one occurrence, the most specific layer."""
    return _effective(_key({"platform": platform(), "job": job.config, "occurrence": overrides or {}}))


def task_config(job: Job, task: Task, overrides: Mapping[str, Any] | None = None) -> Config:
    layers = {"platform": platform(), "job": job.config, "task": task.config, "occurrence": overrides or {}}
    return _effective(_key(layers))


def stored_config(job: str, task: str = "{}", overrides: Mapping[str, Any] | None = None) -> Config:
    """The same from the JSON texts as stored: nothing is parsed that was parsed before."""
    layers = {"platform": json.dumps(platform()), "job": job, "task": task}
    named = [f'"{layer}": {text}' for layer, text in layers.items()]
    return _effective("{" + ", ".join([*named, f'"occurrence": {json.dumps(overrides or {})}']) + "}")


def _key(layers: dict[str, Any]) -> str:
    return json.dumps(layers)


@lru_cache(maxsize=4096)
def _effective(key: str) -> Config:
    """Most jobs share a handful of configurations; a batch asks for the same ones again and again."""
    return effective(json.loads(key))


def platform() -> dict[str, Any]:
    return normalized(getattr(settings, "PUNCTUAL", {}), owner="settings.PUNCTUAL")


def schedule_of(job: Job, config: Config | None = None) -> schedules.Schedule:
    """Anchored at the job's creation: intervals count from there, nothing is owed before it."""
    return schedules.parse(
        job.schedule,
        reference=job.created_at,
        timezone=(config or job_config(job)).timezone,
        trigger_id=job.name,
    )


def upcoming(job: Job, after: datetime, count: int) -> list[datetime]:
    return list(islice(_instants(schedule_of(job), after), count))


def _instants(schedule: schedules.Schedule, after: datetime) -> Any:
    while (instant := schedule.next_after(after)) is not None:
        yield instant
        after = instant
