"""Trigger a job, skip its next occurrence, or move one; the schedule's phase does not change (OCC-9)."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from punctual.conf import current_settings
from punctual.jobs.config.cascade import job_config
from punctual.jobs.config.keys import normalize
from punctual.jobs.definition.document import validate_name
from punctual.jobs.errors import DefinitionError, PunctualError
from punctual.jobs.ids import format_id
from punctual.jobs.json_values import find_mistakes
from punctual.jobs.models import Job
from punctual.occurrences import transitions
from punctual.occurrences.models import Cause, IdempotencyKey, Occurrence
from punctual.occurrences.planning.new_rows import new_occurrence
from punctual.occurrences.states import OccurrenceState, Reason

MICROSECOND = timedelta(microseconds=1)
MAX_TRIES = 100


def trigger(
    job: Job,
    *,
    args: Mapping[str, Any],
    now: datetime,
    overrides: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> UUID:
    """Create a manual occurrence, due at once. `overrides` are its own layer of the configuration cascade.

    A second call with the same key within `idempotency_lifetime` returns the first one's occurrence; with
    other arguments or settings it is refused. Of two concurrent calls one creates the occurrence.
    """
    check_args(args, owner=job.name)
    layer = normalize(overrides or {}, owner=job.name)
    if idempotency_key is None:
        return _insert(job, args, layer, now)
    key = IdempotencyKey(
        job=job,
        key=validate_name("idempotency_key", idempotency_key, owner=job.name),
        request=_digest({"args": args, "config": layer}),
        expires_at=now + current_settings().idempotency_lifetime,
    )
    try:
        return _insert_once(job, args, layer, key, now)
    except IntegrityError:
        # The other call has committed; until then this insert waited for it.
        return _same_request(IdempotencyKey.objects.get(job=job, key=key.key), key)


def check_args(args: object, *, owner: str) -> None:
    """Refuse arguments that are not JSON or that a database cannot store."""
    if not isinstance(args, Mapping):
        raise DefinitionError("args", args, "expected a mapping of names to JSON values", owner=owner)
    for mistake in find_mistakes(args, "args", owner=owner):
        raise mistake


def _digest(request: Mapping[str, Any]) -> str:
    return sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _insert_once(
    job: Job, args: Mapping[str, Any], layer: dict[str, Any], key: IdempotencyKey, now: datetime
) -> UUID:
    with transaction.atomic():
        known = IdempotencyKey.objects.filter(job=job, key=key.key)
        known.filter(expires_at__lte=now).delete()
        if (first := known.first()) is not None:
            return _same_request(first, key)
        key.occurrence_id = _insert(job, args, layer, now)
        key.save(force_insert=True)
        return key.occurrence_id


def _same_request(first: IdempotencyKey, again: IdempotencyKey) -> UUID:
    if first.request != again.request:
        owner, id_ = again.job.name, format_id("occ", first.occurrence_id)
        reason = f"was used with other arguments or settings, for {id_}; repeat those or use another key"
        raise DefinitionError("idempotency_key", again.key, reason, owner=owner)
    return first.occurrence_id


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
    """Skip the schedule's next planned occurrence; None when none is planned or it has just started.

    Manual runs, replays and backfills are not the schedule's.
    """
    pending = Occurrence.objects.filter(job=job, state=OccurrenceState.PENDING, cause=Cause.SCHEDULE)
    for id_ in pending.order_by("run_at", "id").values_list("id", flat=True)[:1]:
        if transitions.skip([id_], reason=Reason.OPERATOR, now=now):
            return id_
    return None


def reschedule(occurrence_id: UUID, *, run_at: datetime, now: datetime) -> None:
    """Give a planned occurrence another start time; its nominal instant, and so its id, stay."""
    if run_at < now:
        raise PunctualError(f"run_at={run_at.isoformat()}: expected an instant from now on")
    if not transitions.move(occurrence_id, run_at=run_at):
        raise PunctualError("only a pending occurrence can be moved; this one has started or does not exist")
