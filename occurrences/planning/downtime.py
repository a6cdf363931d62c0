"""Record late instants of jobs that are far behind, after downtime or a long pause (OCC-5).

A job with more than MAX_INSTANTS_PER_PLAN late instants is not planned row by row. Instants that its recovery
policy does not run are recorded as ranges; instants that it runs are planned in portions, at most
MAX_TO_CATCH_UP rows ahead. This happens under the cursor's lock and moves the cursor in the same
transaction, so a crash, a repetition or a second beat changes nothing.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Count, F, Q

from punctual.jobs.config.cascade import Config
from punctual.jobs.config.choices import Recovery
from punctual.jobs.models import Job
from punctual.occurrences.models import Occurrence
from punctual.occurrences.planning.catchup_policy import Bounds, bounds
from punctual.occurrences.planning.cursors import PlanCursor
from punctual.occurrences.planning.instants import Plan, reach_after
from punctual.occurrences.planning.stretches import Stretches, collect_stretches
from punctual.occurrences.states import OccurrenceState, Reason
from punctual.schedules import Schedule

MAX_INSTANTS_PER_STEP = 100_000  # of one job, recorded at once
MAX_INSTANTS_PER_BATCH = 500_000  # of all jobs, in one transaction
FAR_BEHIND = timedelta(minutes=1)
NEXT_PORTION_AFTER = timedelta(seconds=1)
MAX_RUN_AFTER_EDIT = 10_000
MAX_TO_CATCH_UP = 20_000  # rows of one job; beyond, its newest instants wait until some of these have started
MAX_LISTED_INSTANTS = 500  # instants a compressed run lists one by one


@dataclass(frozen=True)
class Disposition:
    """What becomes of instants that do not run."""

    state: OccurrenceState
    reason: Reason


MISSED = Disposition(OccurrenceState.MISSED, Reason.DOWNTIME)


@dataclass
class LateInstants:
    """What the ledger knows of jobs far behind, and what was decided about their late instants.

    `closing`: the definition changes now, so the past is settled in this transaction.
    """

    now: datetime
    closing: bool = False
    known: Mapping[UUID, Set[datetime]] = field(default_factory=dict)  # instants that have a row
    waiting: Mapping[UUID, int] = field(default_factory=dict)  # rows that have not started
    dispositions: dict[UUID, Disposition] = field(default_factory=dict)
    count: int = 0

    def has_only_late(self, plan: Plan, schedule: Schedule, config: Config) -> bool:
        """Whether every instant of a plan is late."""
        return plan.planned_until <= self._late_until(schedule, config)

    def collect(self, job: Job, schedule: Schedule, config: Config, start: datetime) -> Stretches:
        """Late instants after `start` that do not run; empty when the recovery policy runs all of them."""
        late_until = self._late_until(schedule, config)
        for within, disposition in self._rules(job, config):
            known = self.known.get(job.id, frozenset())
            instants = schedule.between(start, late_until)
            stretches = collect_stretches(instants, within, known=known, limit=MAX_INSTANTS_PER_STEP)
            if stretches.reached is not None:
                self.dispositions[job.id] = disposition
                self.count += stretches.instants
                return stretches
        return Stretches()

    def next_portion(self, job: Job, plan: Plan, start: datetime) -> Plan:
        """The next rows of a job that runs all it missed; none while very many of them wait."""
        if self.closing:
            return plan
        plan_at = self.now + NEXT_PORTION_AFTER
        if self.waiting.get(job.id, 0) > MAX_TO_CATCH_UP:
            return Plan((), start, plan_at)
        return plan._replace(plan_at=plan_at)

    def _late_until(self, schedule: Schedule, config: Config) -> datetime:
        """Instants up to here are late, wherever stagger, jitter and spread put their start."""
        return self.now - config.misfire_grace - reach_after(schedule, config)

    def _rules(self, job: Job, config: Config) -> Iterable[tuple[Bounds, Disposition]]:
        if job.paused or job.suspended:
            yield Bounds(newest=0), Disposition(OccurrenceState.SKIPPED, Reason.PAUSED)
        elif config.recovery is Recovery.COMPRESSED:
            compressing = Disposition(OccurrenceState.SKIPPED, Reason.COMPRESSING)
            yield Bounds(newest=MAX_LISTED_INSTANTS), compressing
        else:
            yield bounds(config, self.now), MISSED
        if self.closing:
            edited = Disposition(OccurrenceState.MISSED, Reason.EDITED)
            yield Bounds(newest=MAX_RUN_AFTER_EDIT), edited


def read_late_instants(behind: Iterable[PlanCursor], now: datetime, *, closing: bool) -> LateInstants:
    """Two statements for all cursors that are behind."""
    jobs = [cursor.job_id for cursor in behind]
    return LateInstants(now, closing, known=_known(jobs), waiting=_waiting(jobs, now))


def _known(jobs: list[UUID]) -> dict[UUID, set[datetime]]:
    """Instants after the settled past that have a row: planned ahead, or handled by an operator."""
    ahead = Q(scheduled_for__gt=F("job__cursor__settled_until"))
    rows = Occurrence.objects.filter(ahead, job__any=jobs)
    known: dict[UUID, set[datetime]] = {}
    for job, instant in rows.values_list("job_id", "scheduled_for"):
        known.setdefault(job, set()).add(instant)
    return known


def _waiting(jobs: list[UUID], now: datetime) -> dict[UUID, int]:
    states = (OccurrenceState.PENDING, OccurrenceState.QUEUED)
    rows = Occurrence.objects.filter(job__any=jobs, state__in=states, scheduled_for__lte=now)
    counts = rows.order_by().values("job").annotate(count=Count("pk"))
    return {row["job"]: row["count"] for row in counts}
