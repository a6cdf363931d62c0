"""Cursors far behind → what the ledger knows of their jobs, and what becomes of the late instants (OCC-5).

Beyond MOST_PER_JOB late instants a job is not planned row by row. What its strategy does not run is
recorded as ranges; what it does run is planned in portions, the next one when the last has mostly
run. All of it happens under the cursor's lock and moves the cursor in the same transaction, so a
crash, a repetition or a second beat changes nothing.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Count, F, Q

from jobs.config import Config, Recovery
from jobs.models import Job
from occurrences.choosing import reach_after
from occurrences.masses import Absorbed, absorb
from occurrences.models import Cursor, Occurrence
from occurrences.planning import MOST_PER_JOB, Plan
from occurrences.states import OccurrenceState
from occurrences.strategies import Bounds, bounds
from schedules import Schedule

STEP = 100_000  # instants of one job disposed of at once
BUDGET = 500_000  # and of all jobs in one transaction
FAR = timedelta(minutes=1)
NEXT_PORTION_AFTER = timedelta(seconds=1)
MOST_AT_AN_EDIT = 10_000
LISTED = 500  # instants a compressed run names one by one

DOWNTIME = "downtime"
EDITED = "edited"
PAUSED = "paused"
COMPRESSING = "waits for its compressed run"


@dataclass(frozen=True)
class Disposition:
    state: OccurrenceState
    reason: str


MISSED = Disposition(OccurrenceState.MISSED, DOWNTIME)


@dataclass
class Behind:
    """`closing`: the definition changes now, so its account is settled in this transaction."""

    now: datetime
    closing: bool = False
    known: Mapping[UUID, Set[datetime]] = field(default_factory=dict)
    open: Mapping[UUID, int] = field(default_factory=dict)
    absorbed: dict[UUID, Disposition] = field(default_factory=dict)
    instants: int = 0

    @property
    def exhausted(self) -> bool:
        return self.instants >= BUDGET and not self.closing

    def is_mass(self, plan: Plan, schedule: Schedule, config: Config) -> bool:
        return len(plan.instants) == MOST_PER_JOB and plan.planned_until <= self._late(schedule, config)

    def absorb(self, job: Job, schedule: Schedule, config: Config, start: datetime) -> Absorbed:
        """What is late after `start` and does not run; nothing when the strategy runs all of it."""
        late = self._late(schedule, config)
        for within, disposition in self._rules(job, config):
            known = self.known.get(job.id, frozenset())
            found = absorb(schedule.between(start, late), within, known=known, limit=STEP)
            if found.reached is not None:
                self.absorbed[job.id] = disposition
                self.instants += found.instants
                return found
        return Absorbed()

    def portion(self, job: Job, plan: Plan, start: datetime) -> Plan:
        """The next rows of a job that runs all it missed; none while most of the last still wait."""
        if self.closing:
            return plan
        again = self.now + NEXT_PORTION_AFTER
        if self.open.get(job.id, 0) > MOST_PER_JOB // 2:
            return Plan((), start, again)
        return plan._replace(plan_at=again)

    def _late(self, schedule: Schedule, config: Config) -> datetime:
        """Instants up to here are late for sure, wherever stagger, jitter and spread put their start."""
        return self.now - config.misfire_grace - reach_after(schedule, config)

    def _rules(self, job: Job, config: Config) -> Iterable[tuple[Bounds, Disposition]]:
        if job.paused:
            yield Bounds(newest=0), Disposition(OccurrenceState.SKIPPED, PAUSED)
        elif config.recovery is Recovery.COMPRESSED:
            yield Bounds(newest=LISTED), Disposition(OccurrenceState.SKIPPED, COMPRESSING)
        else:
            yield bounds(config, self.now), MISSED
        if self.closing:
            yield Bounds(newest=MOST_AT_AN_EDIT), Disposition(OccurrenceState.MISSED, EDITED)


def look(cursors: Iterable[Cursor], now: datetime, *, closing: bool) -> Behind:
    """Two statements for all cursors that are behind, none for the many that are not."""
    far = [cursor.job_id for cursor in cursors if (cursor.planned_until or cursor.settled_until) < now - FAR]
    if not far:
        return Behind(now, closing)
    return Behind(now, closing, known=_known(far), open=_open(far, now))


def _known(jobs: list[UUID]) -> dict[UUID, set[datetime]]:
    """Instants after what is settled that have a row: planned ahead, or dealt with by an operator."""
    ahead = Q(scheduled_for__gt=F("job__cursor__settled_until"))
    rows = Occurrence.objects.filter(ahead, job__any=jobs)
    found: dict[UUID, set[datetime]] = {}
    for job, instant in rows.values_list("job_id", "scheduled_for"):
        found.setdefault(job, set()).add(instant)
    return found


def _open(jobs: list[UUID], now: datetime) -> dict[UUID, int]:
    waiting = (OccurrenceState.PENDING, OccurrenceState.QUEUED)
    rows = Occurrence.objects.filter(job__any=jobs, state__in=waiting, scheduled_for__lte=now)
    counted = rows.order_by().values("job").annotate(count=Count("pk"))
    return {row["job"]: row["count"] for row in counted}
