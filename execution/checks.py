"""Celery's and our own settings → warnings about those that break what this project promises.

`manage.py check` shows them. Nothing here asks the database or the broker: that is what
`manage.py doctor` is for.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from celery import current_app
from django.core import checks
from django.core.checks import CheckMessage, Error

from execution.limits import Limits, limits
from jobs.config import effective
from jobs.durations import format_duration
from jobs.errors import DefinitionError
from jobs.registry import registry
from jobs.scheduling import platform

DEFAULT_VISIBILITY = timedelta(hours=1)  # kombu's, for Redis
AROUND = timedelta(minutes=1)  # what a message may take beside its function
MOST_PREFETCHED = 8  # messages a process
SHORTEST_LEASE = timedelta(seconds=3)  # renewed three times within it, and looked at twice a second


def check_worker_settings(**_kwargs: Any) -> list[CheckMessage]:
    conf: Any = current_app.conf
    found = [*delivery(conf), *content(conf), *patience(limits())]
    if str(conf.broker_url or "").startswith(("redis", "sentinel")):
        options: Mapping[str, Any] = conf.broker_transport_options or {}
        visible = options.get("visibility_timeout", DEFAULT_VISIBILITY.total_seconds())
        found += visibility(timedelta(seconds=float(visible)), longest_timeout())
    return found


def delivery(conf: Any) -> Iterator[CheckMessage]:
    if not conf.task_acks_late:
        yield checks.Warning(
            "task_acks_late is off: a message is lost whose worker dies before it has a claim.",
            hint="Set CELERY_TASK_ACKS_LATE = True; until then such a run waits for PUNCTUAL_LOST_AFTER.",
            id="punctual.W001",
        )
    if not conf.task_reject_on_worker_lost:
        yield checks.Warning(
            "task_reject_on_worker_lost is off: a message is lost whose process dies before it has a claim.",
            hint="Set CELERY_TASK_REJECT_ON_WORKER_LOST = True.",
            id="punctual.W002",
        )
    if not 1 <= conf.worker_prefetch_multiplier <= MOST_PREFETCHED:
        yield checks.Warning(
            f"worker_prefetch_multiplier is {conf.worker_prefetch_multiplier}: a worker that is killed takes "
            "many messages with it.",
            hint=f"Set CELERY_WORKER_PREFETCH_MULTIPLIER to 1 at least and {MOST_PREFETCHED} at most.",
            id="punctual.W003",
        )


def content(conf: Any) -> Iterator[CheckMessage]:
    spoken = {*conf.accept_content, conf.task_serializer, conf.result_serializer}
    if unsafe := sorted(spoken & {"pickle", "application/x-python-serialize"}):
        yield Error(
            f"Celery accepts {', '.join(unsafe)}: whoever can write to the broker can run code in workers.",
            hint='Set CELERY_ACCEPT_CONTENT = ["json"] and both serializers to "json".',
            id="punctual.E001",
        )


def patience(given: Limits) -> Iterator[CheckMessage]:
    if given.lease < SHORTEST_LEASE:
        yield checks.Warning(
            f"PUNCTUAL_LEASE is {format_duration(given.lease)}: a worker that stalls loses its runs.",
            hint=f"At least {format_duration(SHORTEST_LEASE)}.",
            id="punctual.W004",
        )


def visibility(visible: timedelta, longest: timedelta) -> Iterator[CheckMessage]:
    if visible <= longest:
        yield checks.Warning(
            f"The broker gives a message out again after {format_duration(visible)}, but an attempt may take "
            f"{format_duration(longest)}. A run is not started twice; another Celery task would be.",
            hint="Raise BROKER_VISIBILITY_TIMEOUT, or lower the longest task_timeout.",
            id="punctual.W005",
        )


def longest_timeout() -> timedelta:
    """Of all jobs that code declares, and what a message takes around it."""
    base: dict[str, Mapping[str, Any]] = {"platform": _platform()}
    layers = [base]
    for job in registry.jobs.values():
        layers += [base | {"job": job.config, "task": task.config} for task in job.tasks]
    return max(effective(layer).task_timeout for layer in layers) + AROUND


def _platform() -> dict[str, Any]:
    try:
        return platform()
    except DefinitionError:  # said elsewhere, when it is used
        return {}
