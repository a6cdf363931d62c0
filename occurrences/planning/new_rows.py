"""Build new occurrence rows and insert those that do not exist yet (OCC-2)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from punctual.jobs.config.cascade import Config
from punctual.jobs.config.choices import Overlap
from punctual.jobs.ids import occurrence_id
from punctual.jobs.models import Job, Origin
from punctual.occurrences.engines.contract import Row
from punctual.occurrences.engines.current import engine
from punctual.occurrences.models import Occurrence
from punctual.occurrences.planning.instants import choose
from punctual.occurrences.planning.stretches import Stretch
from punctual.occurrences.states import OccurrenceState, Reason
from punctual.schedules import Schedule


def create_missing(rows: Iterable[Occurrence | Row]) -> int:
    """Insert the rows that no other process has inserted, and return their number."""
    columns = (vars(row) if isinstance(row, Occurrence) else row for row in rows)
    return engine().insert_missing(Occurrence, columns)


def is_plannable(job: Job) -> bool:
    """Whether beats plan the job. A polling scheduler starts its own jobs; beats only show them."""
    return job.enabled and job.removed_at is None and job.origin != Origin.POLLING


def planned_row(job: Job, schedule: Schedule, config: Config, scheduled_for: datetime, now: datetime) -> Row:
    """The row of one instant; skipped at once if it has no possible start time."""
    choice = choose(schedule, config, job.name, scheduled_for)
    columns: dict[str, object] = {"late_at": choice.run_at + config.misfire_grace}
    if choice.refusal is not None:
        columns |= {"state": OccurrenceState.SKIPPED, "reason": choice.refusal}
        columns |= {"finished_at": now, "finalized_at": now}
    return new_row(
        job,
        config,
        scheduled_for=scheduled_for,
        run_at=choice.run_at,
        now=now,
        expires_at=choice.expires_at,
        **columns,
    )


def range_row(
    job: Job, config: Config, stretch: Stretch, *, state: OccurrenceState, reason: Reason, now: datetime
) -> Row:
    """One row for many instants that never run; its id is that of the first."""
    return new_row(
        job,
        config,
        scheduled_for=stretch.first,
        run_at=stretch.first,
        now=now,
        state=state,
        reason=reason,
        finished_at=now,
        finalized_at=now,
        spans_until=stretch.last if stretch.count > 1 else None,
        instants=stretch.count,
    )


def new_occurrence(
    job: Job,
    config: Config,
    *,
    scheduled_for: datetime,
    run_at: datetime,
    now: datetime,
    **columns: object,
) -> Occurrence:
    """An unsaved occurrence with the configuration it will run with."""
    row = new_row(job, config, scheduled_for=scheduled_for, run_at=run_at, now=now)
    own = {"id": occurrence_id(job.id, scheduled_for), "job_id": job.id, "config": config.to_json()}
    occurrence = Occurrence(**row | own | columns)
    occurrence.job = job
    return occurrence


def new_row(
    job: Job, config: Config, *, scheduled_for: datetime, run_at: datetime, now: datetime, **columns: object
) -> dict[str, Any]:
    """The columns alone: a model's constructor takes ten times as long, and a batch needs a thousand."""
    owner = str(job.id)
    return {
        "id": str(occurrence_id(owner, scheduled_for)),
        "job_id": owner,
        "job_version": job.version,
        "scheduled_for": scheduled_for,
        "run_at": run_at,
        "exclusive": config.overlap is not Overlap.ALLOW,
        "pool": config.pool,
        "priority": config.priority,
        "config": config.snapshot,
        "metadata": job.metadata,
        "execution_timeout": config.execution_timeout,
        "created_at": now,
        **columns,
    }
