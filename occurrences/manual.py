"""A job and arguments → a manual occurrence, due at once, beside the schedule's phase (OCC-9)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from jobs.config import normalized
from jobs.errors import PunctualError
from jobs.models import Job
from jobs.scheduling import job_config
from occurrences.materialize import new_occurrence
from occurrences.models import Cause, Occurrence

MICROSECOND = timedelta(microseconds=1)
MOST_TRIES = 100


def trigger(
    job: Job, *, args: Mapping[str, Any], now: datetime, overrides: Mapping[str, Any] | None = None
) -> UUID:
    """`overrides` are the occurrence's own layer of the cascade."""
    layer = normalized(overrides or {}, owner=job.name)
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
