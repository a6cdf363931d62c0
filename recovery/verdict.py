"""A job's late occurrences and its strategy → what becomes of each of them (REC-1). Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from jobs.config import Recovery, loaded
from occurrences.behind import LISTED
from occurrences.models import Occurrence
from occurrences.strategies import to_execute


@dataclass(frozen=True)
class Late:
    job_id: UUID
    id: UUID
    scheduled_for: datetime


@dataclass(frozen=True)
class Range:
    """Missed instants that one row stands for; a single one has no `until`."""

    job_id: UUID
    id: UUID
    scheduled_for: datetime
    until: datetime | None
    instants: int


@dataclass(frozen=True)
class Verdict:
    """Ids by what becomes of them; `compress` maps the one that runs to what it covers."""

    job: str
    late: int
    run: Sequence[UUID] = ()
    miss: Sequence[UUID] = ()
    paused: Sequence[UUID] = ()
    covered: Sequence[UUID] = ()
    ranges: Sequence[UUID] = ()
    compress: Mapping[UUID, Mapping[str, object]] = field(default_factory=dict)

    @property
    def recovered(self) -> int:
        return len(self.run) + len(self.compress)


def decide(newest: Occurrence, late: Sequence[Late], ranges: Sequence[Range], *, now: datetime) -> Verdict:
    """`late` in order of their instants; `newest` is the row of the last one, whose strategy counts."""
    name, config = newest.job.name, loaded(newest.config)
    ids = [row.id for row in late]
    if newest.job.paused:
        return Verdict(name, len(late), paused=ids)
    if config.recovery is Recovery.COMPRESSED:
        told = {newest.id: covers(late, ranges)}
        owned = [row.id for row in ranges]
        return Verdict(name, len(late), covered=ids[:-1], ranges=owned, compress=told)
    keep = to_execute(config, [row.scheduled_for for row in late], now)
    run = [row.id for row in late if row.scheduled_for in keep]
    return Verdict(name, len(late), run=run, miss=[row.id for row in late if row.scheduled_for not in keep])


def covers(late: Sequence[Late], ranges: Sequence[Range] = ()) -> dict[str, object]:
    """The span and the number of the instants a compressed run stands for, and a list of the newest."""
    first = min([row.scheduled_for for row in ranges] + [row.scheduled_for for row in late])
    return {
        "from": first.isoformat(),
        "until": late[-1].scheduled_for.isoformat(),
        "count": len(late) + sum(row.instants for row in ranges),
        "instants": [row.scheduled_for.isoformat() for row in late[-LISTED:]],
    }
