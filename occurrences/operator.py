"""Trigger a job, skip its next occurrence, or move one; the schedule's phase does not change (OCC-9)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from punctual.jobs.config.cascade import job_config
from punctual.jobs.config.keys import normalize
from punctual.jobs.definition.document import validate_name
from punctual.jobs.errors import PunctualError
from punctual.jobs.models import Job
from punctual.occurrences import transitions
from punctual.occurrences.models import Cause, IdempotencyKey, Occurrence
from punctual.occurrences.planning.new_rows import new_occurrence
from punctual.occurrences.states import OccurrenceState, Reason

MICROSECOND = timedelta(microseconds=1)
MAX_TRIES = 100
KEY_LIFETIME = timedelta(hours=24)


def trigger(
    job: Job,
    *,
    args: Mapping[str, Any],
    now: datetime,
    overrides: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> UUID:
    """Create a manual occurrence, due at once. `overrides` are its own layer of the configuration cascade.

    A second call with the same key within KEY_LIFETIME returns the first one's occurrence. Of two concurrent
    calls one creates it and the other returns it.
    """
    layer = normalize(overrides or {}, owner=job.name)
    if idempotency_key is None:
        return _insert(job, args, layer, now)
    key = validate_name("idempotency_key", idempotency_key, owner=job.name)
    try:
        return _insert_once(job, args, layer, key, now)
    except IntegrityError:
        # The other call has committed; until then this insert waited for it.
        return IdempotencyKey.objects.get(job=job, key=key).occurrence_id


def _insert_once(job: Job, args: Mapping[str, Any], layer: dict[str, Any], key: str, now: datetime) -> UUID:
    with transaction.atomic():
        IdempotencyKey.objects.filter(job=job, key=key, expires_at__lte=now).delete()
        known = IdempotencyKey.objects.filter(job=job, key=key).values_list("occurrence_id", flat=True)
        for occurrence_id in known:
            return occurrence_id
        created = _insert(job, args, layer, now)
        IdempotencyKey.objects.create(job=job, key=key, occurrence_id=created, expires_at=now + KEY_LIFETIME)
        return created


def _insert(job: Job, args: Mapping[str, Any], layer: dict[str, Any], now: datetime) -> UUID:
    for tries in range(MAX_TRIES):
        row = _manual_occurrence(job, args, layer, now + tries * MICROSECOND)
        if _try_insert(row):
            return row.id
    raise PunctualError(f"{job.name}: {MAX_TRIES} triggers at the same instant; try again")


def _manual_occurrence(job: Job, args: Mapping[str, Any], layer: dict[str, Any], now: datetime) -> Occurrence:
    columns = {"cause": Cause.MANUAL, "args": dict(args), "overrides": layer}
    config = job_config(job, layer)
    return new_occurrence(job, config, scheduled_for=now, run_at=now, now=now, **columns)


def _try_insert(row: Occurrence) -> bool:
    """False: the instant is taken, by the schedule or by a trigger in the same microsecond."""
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        return False
    return True


def skip_next(job: Job, *, now: datetime) -> UUID | None:
    """Skip the job's next planned occurrence; None when none is planned or it has just started."""
    pending = Occurrence.objects.filter(job=job, state=OccurrenceState.PENDING).order_by("run_at", "id")
    for id_ in pending.values_list("id", flat=True)[:1]:
        if transitions.skip([id_], reason=Reason.OPERATOR, now=now):
            return id_
    return None


def reschedule(occurrence_id: UUID, *, run_at: datetime, now: datetime) -> None:
    """Give a planned occurrence another start time; its nominal instant, and so its id, stay."""
    if run_at < now:
        raise PunctualError(f"run_at={run_at.isoformat()}: expected an instant from now on")
    if not transitions.move(occurrence_id, run_at=run_at):
        raise PunctualError("only a pending occurrence can be moved; this one has started or does not exist")
