"""Jobs with what each keeps, and a place → the oldest rows from that place on, as many as are asked for.

A place is the row looked at last. Rows that have to stay, such as dead letters, are looked at once in a
round and passed, so however many of them lie in the way, a step costs no more than its rows and one look
into the index for each job.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from itertools import groupby
from operator import attrgetter, or_
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Q

from occurrences.models import Occurrence
from occurrences.states import OCCURRENCE_FINAL

COLUMNS = ("id", "job_id", "scheduled_for", "spans_until", "state", "finished_at", "finalized_at")
BEGINNING, NOBODY = datetime(1, 1, 2, tzinfo=UTC), UUID(int=0)

# LATERAL: the index is asked once for each job, and the statement ends with the last row it may read,
# whatever the planner believes about the number of old rows.
OLDEST = f"""
SELECT {", ".join(f"old.{name}" for name in COLUMNS)}
FROM unnest(%s::uuid[], %s::timestamptz[], %s::timestamptz[], %s::uuid[])
     WITH ORDINALITY AS kept (job_id, cutoff, since, after, place)
CROSS JOIN LATERAL (
    SELECT {", ".join(COLUMNS)} FROM occurrences_occurrence
    WHERE job_id = kept.job_id AND scheduled_for < kept.cutoff
      AND scheduled_for >= kept.since AND (scheduled_for, id) > (kept.since, kept.after)
    ORDER BY scheduled_for, id LIMIT %s
) AS old
ORDER BY kept.place, old.scheduled_for, old.id LIMIT %s
"""  # noqa: S608 - our own constants


@dataclass(frozen=True)
class Keeps:
    """A job, and the instant before which what has ended may go; `since` and `after`: a place inside it."""

    job_id: UUID
    cutoff: datetime
    since: datetime = BEGINNING
    after: UUID = NOBODY


class Old(NamedTuple):
    id: UUID
    job_id: UUID
    scheduled_for: datetime
    spans_until: datetime | None
    state: str
    finished_at: datetime | None
    finalized_at: datetime | None

    def over(self, cutoff: datetime) -> bool:
        """Ended before the cutoff, hooks called; only a dead letter can keep it."""
        ended = self.finished_at is not None and self.finished_at < cutoff
        return ended and self.finalized_at is not None and self.state in OCCURRENCE_FINAL

    @property
    def reached(self) -> datetime:
        return self.spans_until or self.scheduled_for


def oldest(jobs: Sequence[Keeps], limit: int) -> list[Old]:
    """In the order of `jobs`, which is that of their ids, and of the rows' instants."""
    if not jobs:
        return []
    return _lateral(jobs, limit) if connection.vendor == "postgresql" else _portable(jobs, limit)


def _lateral(jobs: Sequence[Keeps], limit: int) -> list[Old]:
    arrays = [[getattr(one, name) for one in jobs] for name in ("job_id", "cutoff", "since", "after")]
    with connection.cursor() as cursor:
        cursor.execute(OLDEST, [*arrays, limit, limit])
        return [Old(*row) for row in cursor.fetchall()]


def _portable(jobs: Sequence[Keeps], limit: int) -> list[Old]:
    wanted = reduce(or_, _terms(jobs))
    rows = Occurrence.objects.filter(wanted).order_by("job_id", "scheduled_for", "id")
    return [Old(*row) for row in rows.values_list(*COLUMNS)[:limit]]


def _terms(jobs: Sequence[Keeps]) -> list[Q]:
    """One for each cutoff, not one for each job: most jobs keep for the same time."""
    begun = [one for one in jobs if one.since != BEGINNING]
    whole = sorted((one for one in jobs if one.since == BEGINNING), key=attrgetter("cutoff"))
    return [
        *(
            Q(job__any=[one.job_id for one in group], scheduled_for__lt=cutoff)
            for cutoff, group in groupby(whole, key=attrgetter("cutoff"))
        ),
        *(
            Q(job=one.job_id, scheduled_for__lt=one.cutoff)
            & (Q(scheduled_for__gt=one.since) | Q(scheduled_for=one.since, id__gt=one.after))
            for one in begun
        ),
    ]
