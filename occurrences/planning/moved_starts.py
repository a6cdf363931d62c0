"""Keep the start times that operators chose for planned instants when a definition changes (OCC-9).

An edit deletes what was planned and plans again. An instant that an operator has moved keeps its start time
if the new schedule still names it; otherwise it is removed like every planned instant of the old schedule.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from punctual.jobs.config.cascade import job_config
from punctual.jobs.ids import occurrence_id
from punctual.jobs.models import Job
from punctual.occurrences.engines.contract import Row
from punctual.occurrences.models import Cause, Occurrence
from punctual.occurrences.planning.new_rows import planned_row
from punctual.occurrences.querysets import OccurrenceQuerySet
from punctual.occurrences.states import OccurrenceState
from punctual.schedules import Schedule

MICROSECOND = timedelta(microseconds=1)
Starts = Mapping[datetime, datetime]  # the start time of each moved instant
NO_STARTS: Starts = {}


def moved_rows(jobs: Collection[UUID]) -> OccurrenceQuerySet:
    """Planned occurrences whose start time an operator has chosen: only these are never late."""
    rows = Occurrence.objects.filter(job__any=jobs, state=OccurrenceState.PENDING, cause=Cause.SCHEDULE)
    return rows.filter(late_at=None)


def read_moved(rows: OccurrenceQuerySet) -> dict[UUID, dict[datetime, datetime]]:
    """The moved instants of each job, in one statement."""
    starts: dict[UUID, dict[datetime, datetime]] = {}
    for job, instant, run_at in rows.values_list("job_id", "scheduled_for", "run_at"):
        starts.setdefault(job, {})[instant] = run_at
    return starts


def still_named(schedule: Schedule, starts: Starts) -> list[datetime]:
    """Those of the instants that the schedule has."""
    return [instant for instant in starts if schedule.next_after(instant - MICROSECOND) == instant]


def keep_starts(
    job: Job, schedule: Schedule, rows: Iterable[Row], starts: Starts, now: datetime
) -> list[Row]:
    """The new rows, those of moved instants with their start times and the others as planned."""
    config = job_config(job)
    planned = {row["id"]: row for row in rows}
    for instant in still_named(schedule, starts):
        # The instant may be beyond what is planned ahead; then planning finds this row when it gets there.
        row = planned.get(id_ := str(occurrence_id(job.id, instant)))
        row = row or planned_row(job, schedule, config, instant, now)
        planned[id_] = {**row, "run_at": starts[instant], "late_at": None}
    return list(planned.values())
