"""An operator's wish about one planned occurrence → skipped or moved; the schedule's phase stays (OCC-9)."""

from datetime import datetime
from uuid import UUID

from jobs.errors import PunctualError
from jobs.models import Job
from occurrences import transitions
from occurrences.models import Occurrence
from occurrences.states import OccurrenceState


def skip_next(job: Job, *, now: datetime) -> UUID | None:
    """Skip the job's next planned occurrence; None when none is planned or it started meanwhile."""
    pending = Occurrence.objects.filter(job=job, state=OccurrenceState.PENDING).order_by("run_at", "id")
    for id_ in pending.values_list("id", flat=True)[:1]:
        if transitions.skip([id_], reason="operator", now=now):
            return id_
    return None


def reschedule(occurrence_id: UUID, *, run_at: datetime, now: datetime) -> None:
    """Let one planned occurrence start at another time; its nominal instant, and so its id, stay."""
    if run_at < now:
        raise PunctualError(f"run_at={run_at.isoformat()}: expected an instant from now on")
    if not transitions.move(occurrence_id, run_at=run_at):
        raise PunctualError("only a pending occurrence can be moved; this one has gone on or is unknown")
