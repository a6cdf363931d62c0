"""The overlap policy: what happens to an occurrence while another one of its job is active (OCC-4). Pure.

`allow` never comes here: its occurrences are not exclusive. For `replace` the newcomer waits like any other,
and the sweeper ends the active occurrence (`punctual.recovery.sweeper.replacement`).
"""

from punctual.jobs.config.choices import Overlap
from punctual.occurrences.admission.candidates import Due
from punctual.occurrences.models import Cause
from punctual.occurrences.states import Reason

REQUESTED_CAUSES = (Cause.REPLAY, Cause.BACKFILL)
KEEPS_LATEST = frozenset({Overlap.QUEUE_LATEST, Overlap.REPLACE})

Queue = dict[Reason, list[Due]]
Skip = dict[Reason, list[str]]


def queue_or_skip(row: Due, queue: Queue, skip: Skip) -> None:
    """Add an occurrence of a busy job to `queue` or `skip`, as its overlap policy says."""
    if row.cause in REQUESTED_CAUSES:
        # An operator asked for this one: it neither supersedes other occurrences nor is superseded.
        queue.setdefault(Reason.REQUESTED, []).append(row)
        return
    overlap = Overlap(row.overlap)
    # What a recovery policy decided to run does run, one after the other.
    if overlap is Overlap.SKIP and row.cause != Cause.RECOVERY:
        skip.setdefault(Reason.OVERLAP, []).append(row.id)
        return
    waiting = queue.setdefault(Reason.OVERLAP, [])
    if overlap in KEEPS_LATEST:
        older = [other for other in waiting if other.job_id == row.job_id]
        skip.setdefault(Reason.SUPERSEDED, []).extend(other.id for other in older)
        waiting[:] = [other for other in waiting if other.job_id != row.job_id]
    waiting.append(row)
