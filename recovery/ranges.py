"""A job and a span of time → the occurrences in it that a replay would repeat (REC-4).

What was asked for by a schedule or by hand, that is: a replay of a range is not repeated together with
what it repeats. At a bounded price: a range that holds more is refused, not counted.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef

from jobs.errors import DefinitionError
from jobs.models import Job
from occurrences.models import Cause, Occurrence, OccurrenceQuerySet
from occurrences.states import OccurrenceState
from recovery.replay import replayable
from recovery.span import Span

MOST = 10_000


@dataclass(frozen=True)
class Chosen:
    """`ids` in the order of their instants; how many of them ended how; `others` in the range stay out."""

    ids: tuple[UUID, ...]
    states: Counter[str]
    others: int


def chosen(
    job: Job, span: Span, *, failed_only: bool, seen: datetime, now: datetime, most: int = MOST
) -> Chosen:
    """`seen`: what ended after it is not part of it, for whoever asked was told the count of then."""
    span.checked(now)
    rows = Occurrence.objects.filter(job=job, scheduled_for__range=(span.since, span.until))
    ids = list(rows.order_by("scheduled_for", "id").values_list("id", flat=True)[: most + 1])
    if len(ids) > most:
        reason = f"the range holds more than {most:,} occurrences; choose a shorter one"
        raise DefinitionError("to", span.until.isoformat(), reason)
    within = Occurrence.objects.filter(id__any=ids, finished_at__lte=seen)
    found = list(
        repeated(within, failed_only=failed_only).order_by("scheduled_for", "id").values_list("id", "state")
    )
    states = Counter(state for _, state in found)
    return Chosen(tuple(id_ for id_, _ in found), states, others=len(ids) - len(found))


def repeated(rows: OccurrenceQuerySet, *, failed_only: bool) -> OccurrenceQuerySet:
    """Of what failed, not what a replay has mended since."""
    originals = replayable(rows, failed_only=failed_only).exclude(cause=Cause.REPLAY)
    if not failed_only:
        return originals
    mended = Occurrence.objects.filter(
        parent=OuterRef("pk"), cause=Cause.REPLAY, state=OccurrenceState.COMPLETED
    )
    return originals.filter(~Exists(mended))
