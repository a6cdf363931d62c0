"""A job and arguments → a manual occurrence, due at once, beside the schedule's phase (OCC-9)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from jobs.config import normalized
from jobs.definition import checked_name
from jobs.errors import PunctualError
from jobs.models import Job
from jobs.scheduling import job_config
from occurrences.materialize import new_occurrence
from occurrences.models import Cause, IdempotencyKey, Occurrence

MICROSECOND = timedelta(microseconds=1)
MOST_TRIES = 100
KEY_LIFETIME = timedelta(hours=24)


def trigger(
    job: Job,
    *,
    args: Mapping[str, Any],
    now: datetime,
    overrides: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> UUID:
    """`overrides` are the occurrence's own layer of the cascade.

    A second call with the same key within KEY_LIFETIME finds the first one's occurrence; of two calls
    at once one wins and the other finds it.
    """
    layer = normalized(overrides or {}, owner=job.name)
    if idempotency_key is None:
        return _insert(job, args, layer, now)
    key = checked_name("idempotency_key", idempotency_key, owner=job.name)
    try:
        return _insert_once(job, args, layer, key, now)
    except IntegrityError:
        # The winner has committed, or this insert would still be waiting for it.
        return IdempotencyKey.objects.get(job=job, key=key).occurrence_id


def _insert_once(job: Job, args: Mapping[str, Any], layer: dict[str, Any], key: str, now: datetime) -> UUID:
    with transaction.atomic():
        IdempotencyKey.objects.filter(job=job, key=key, expires_at__lte=now).delete()
        known = IdempotencyKey.objects.filter(job=job, key=key).values_list("occurrence_id", flat=True)
        for occurrence_id in known:
            return occurrence_id
        made = _insert(job, args, layer, now)
        IdempotencyKey.objects.create(job=job, key=key, occurrence_id=made, expires_at=now + KEY_LIFETIME)
        return made


def _insert(job: Job, args: Mapping[str, Any], layer: dict[str, Any], now: datetime) -> UUID:
    for tries in range(MOST_TRIES):
        row = _row(job, args, layer, now + tries * MICROSECOND)
        if _inserted(row):
            return row.id
    raise PunctualError(f"{job.name}: {MOST_TRIES} triggers in one moment; try again")


def _row(job: Job, args: Mapping[str, Any], layer: dict[str, Any], now: datetime) -> Occurrence:
    columns = {"cause": Cause.MANUAL, "args": dict(args), "overrides": layer}
    config = job_config(job, layer)
    return new_occurrence(job, config, scheduled_for=now, run_at=now, now=now, **columns)


def _inserted(row: Occurrence) -> bool:
    """False: its instant is taken, by the schedule or by a trigger in the same microsecond."""
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        return False
    return True
