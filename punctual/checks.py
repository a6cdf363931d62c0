"""Check the settings of Django, Celery and Punctual for values that break a guarantee.

`manage.py check` shows the messages, commands and workers run it at start, and `manage.py punctual doctor`
repeats them. No check here asks the database or the broker; the doctor does that.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from celery import current_app
from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections

from punctual import conf
from punctual.execution.broker.brokers import broker_of
from punctual.jobs.config.bounded_duration import format_duration
from punctual.jobs.config.cascade import merge_layers, platform
from punctual.jobs.declaration.registry import registry
from punctual.jobs.errors import DefinitionError

MESSAGE_OVERHEAD = timedelta(minutes=1)  # what a message may take beside its function
MAX_PREFETCHED = 8  # messages of one process
MIN_LEASE = timedelta(seconds=3)  # a lease is renewed three times, and the supervisor looks twice a second
MIN_SQLITE = (3, 35)  # the first version with RETURNING


def check_settings(**_kwargs: Any) -> list[CheckMessage]:
    """Run every check; Django calls it with `app_configs` and `databases`, which no check needs."""
    visible = broker_of(str(current_app.conf.broker_url)).visibility_timeout()
    return [
        *check_installation(),
        *([] if visible is None else check_visibility_timeout(visible, longest_timeout())),
    ]


def check_installation() -> list[CheckMessage]:
    """Run the checks that do not depend on the declared jobs."""
    celery: Any = current_app.conf
    return [
        *check_punctual(),
        *check_time_zones(),
        *check_database(),
        *check_delivery(celery),
        *check_serializers(celery),
    ]


def check_punctual() -> Iterator[CheckMessage]:
    try:
        platform()
        current = conf.current_settings()
    except (DefinitionError, ImproperlyConfigured) as error:
        yield Error(str(error), hint="Correct the setting PUNCTUAL.", id="punctual.E002")
        return
    yield from check_lease(current)
    if current.database != DEFAULT_DB_ALIAS:
        yield Error(
            f"PUNCTUAL['database'] is {current.database!r}: tables outside the default database are not "
            "supported yet.",
            hint=f"Set it to {DEFAULT_DB_ALIAS!r}.",
            id="punctual.E005",
        )


def check_lease(current: conf.Settings) -> Iterator[CheckMessage]:
    if current.lease < MIN_LEASE:
        yield checks.Warning(
            f"PUNCTUAL['lease'] is {format_duration(current.lease)}: a worker that stalls loses its runs.",
            hint=f"Set at least {format_duration(MIN_LEASE)}.",
            id="punctual.W004",
        )


def check_time_zones() -> Iterator[CheckMessage]:
    if not settings.USE_TZ:
        yield Error(
            "USE_TZ is off: instants without a time zone would fire at the wrong time.",
            hint="Set USE_TZ = True.",
            id="punctual.E003",
        )


def check_database() -> Iterator[CheckMessage]:
    vendor = connections[DEFAULT_DB_ALIAS].vendor
    if vendor not in ("postgresql", "sqlite"):
        yield Error(
            f"The database is {vendor}: only PostgreSQL and SQLite are supported.",
            hint="Set DATABASES['default'] to one of them.",
            id="punctual.E004",
        )
    if vendor == "sqlite" and sqlite3.sqlite_version_info < MIN_SQLITE:
        yield Error(
            f"SQLite is {sqlite3.sqlite_version}: RETURNING needs 3.35 or newer.",
            hint="Install a Python with a newer SQLite, or use PostgreSQL.",
            id="punctual.E004",
        )


def check_debug() -> Iterator[CheckMessage]:
    """For the doctor; `manage.py check --deploy` has Django's own message."""
    if settings.DEBUG:
        yield checks.Warning(
            "DEBUG is on: error pages show settings to everyone who causes an error.",
            hint="Set DEBUG = False.",
            id="security.W018",
        )


def check_delivery(celery: Any) -> Iterator[CheckMessage]:
    if not celery.task_acks_late:
        yield checks.Warning(
            "task_acks_late is off: a message is lost when its worker dies before the claim.",
            hint="Set CELERY_TASK_ACKS_LATE = True; until then such a run waits for PUNCTUAL['lost_after'].",
            id="punctual.W001",
        )
    if not celery.task_reject_on_worker_lost:
        yield checks.Warning(
            "task_reject_on_worker_lost is off: a message is lost when its process dies before the claim.",
            hint="Set CELERY_TASK_REJECT_ON_WORKER_LOST = True.",
            id="punctual.W002",
        )
    if not 1 <= celery.worker_prefetch_multiplier <= MAX_PREFETCHED:
        yield checks.Warning(
            f"worker_prefetch_multiplier is {celery.worker_prefetch_multiplier}: a worker that is killed "
            "takes many messages with it.",
            hint=f"Set CELERY_WORKER_PREFETCH_MULTIPLIER to a number from 1 to {MAX_PREFETCHED}.",
            id="punctual.W003",
        )


def check_serializers(celery: Any) -> Iterator[CheckMessage]:
    formats = {*celery.accept_content, celery.task_serializer, celery.result_serializer}
    if unsafe := sorted(formats & {"pickle", "application/x-python-serialize"}):
        yield Error(
            f"Celery accepts {', '.join(unsafe)}: every client that can write to the broker can run code in "
            "workers.",
            hint='Set CELERY_ACCEPT_CONTENT = ["json"] and both serializers to "json".',
            id="punctual.E001",
        )


def check_visibility_timeout(visible: timedelta, longest: timedelta) -> Iterator[CheckMessage]:
    if visible <= longest:
        yield checks.Warning(
            f"The broker redelivers a message after {format_duration(visible)}, but an attempt may take "
            f"{format_duration(longest)}. A run is not started twice; another Celery task would be.",
            hint="Raise visibility_timeout in CELERY_BROKER_TRANSPORT_OPTIONS, or lower task_timeout.",
            id="punctual.W005",
        )


def longest_timeout() -> timedelta:
    """Return the longest task_timeout of the declared jobs, plus what a message takes around it."""
    base: dict[str, Mapping[str, Any]] = {"platform": _valid_platform()}
    layers = [base]
    for job in registry.jobs.values():
        layers += [base | {"job": job.config, "task": task.config} for task in job.tasks]
    return max(merge_layers(layer).task_timeout for layer in layers) + MESSAGE_OVERHEAD


def _valid_platform() -> dict[str, Any]:
    try:
        return platform()
    except (DefinitionError, ImproperlyConfigured):  # check_punctual reports it
        return {}
