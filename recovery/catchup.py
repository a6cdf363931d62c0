"""Pending rows nobody fired in time → run after all or recorded as missed, as the job's strategy says.

Runs inside every tick, after planning and before firing. A row is late once `misfire_grace` has
passed; what shall still run is marked as recovery and goes through the normal door, firing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter

from django.db import transaction

from jobs.config import loaded
from jobs.events import Event, emit
from occurrences import transitions
from occurrences.models import Cursor, Occurrence
from recovery.strategies import to_execute

BATCH = 100


@dataclass(frozen=True)
class CaughtUp:
    jobs: int = 0
    recovered: int = 0
    missed: int = 0


def catch_up(now: datetime, *, limit: int = BATCH) -> CaughtUp:
    """Jobs whose planning is still behind wait: a strategy needs the whole list of missed instants."""
    late = Occurrence.objects.due(now).late(now).exclude(job__cursor__plan_at__lte=now)
    jobs = list(late.order_by("job_id").values_list("job_id", flat=True).distinct()[:limit])
    if not jobs:
        return CaughtUp()
    with transaction.atomic():
        cursors = Cursor.objects.filter(job__in=jobs).order_by("job_id")
        held = list(cursors.select_for_update(skip_locked=True, no_key=True).values_list("job_id", flat=True))
        rows = Occurrence.objects.due(now).late(now).filter(job__in=held).select_related("job")
        return _dispose(rows.order_by("job_id", "scheduled_for"), now)


def _dispose(rows: Iterable[Occurrence], now: datetime) -> CaughtUp:
    recovered, missed, jobs = [], [], 0
    for _, group in groupby(rows, key=attrgetter("job_id")):
        late = list(group)
        jobs += 1
        keep = to_execute(loaded(late[-1].config), [row.scheduled_for for row in late], now)
        recovered += [row.id for row in late if row.scheduled_for in keep]
        missed += [row.id for row in late if row.scheduled_for not in keep]
        event = Event.OCCURRENCE_RECOVERED if keep else Event.OCCURRENCE_MISSED
        emit(event, job=late[-1].job.name, late=len(late), run=len(keep))
    transitions.recover(recovered)
    transitions.miss(missed, reason="downtime", now=now)
    return CaughtUp(jobs=jobs, recovered=len(recovered), missed=len(missed))
