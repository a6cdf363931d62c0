"""The overlap policy: what happens to an occurrence while another one of its job is active (OCC-4). Pure.

A live occurrence that meets a recovered, replayed or backfilled one waits and starts next, whatever the
policy says, and a recovered, replayed or backfilled one is never skipped (LIM-5).

`allow` never comes here: its occurrences are not exclusive. For `replace` the newcomer waits like any other,
and the sweeper ends the active occurrence (`punctual.recovery.sweeper.replacement`).
"""

from punctual.jobs.config.choices import Overlap
from punctual.occurrences.admission.candidates import Due
from punctual.occurrences.models import Cause
from punctual.occurrences.states import CATCH_UP_CAUSES, Reason

REQUESTED_CAUSES = (Cause.REPLAY, Cause.BACKFILL)
KEEPS_LATEST = frozenset({Overlap.QUEUE_LATEST, Overlap.REPLACE})

Queue = dict[Reason, list[Due]]
Skip = dict[Reason, list[str]]


def queue_or_skip(row: Due, active: str, queue: Queue, skip: Skip) -> None:
    """Add an occurrence of a busy job to `queue` or `skip`; `active` is the cause of the one before it."""
    if row.cause in CATCH_UP_CAUSES:
        # It neither supersedes other occurrences nor is superseded.
        reason = Reason.REQUESTED if row.cause in REQUESTED_CAUSES else Reason.OVERLAP
        queue.setdefault(reason, []).append(row)
        return
    if active in CATCH_UP_CAUSES:
        queue.setdefault(Reason.CATCH_UP, []).append(row)
        return
    overlap = Overlap(row.overlap)
    if overlap is Overlap.SKIP:
        skip.setdefault(Reason.OVERLAP, []).append(row.id)
        return
    waiting = queue.setdefault(Reason.OVERLAP, [])
    if overlap in KEEPS_LATEST:
        older = [other for other in waiting if other.job_id == row.job_id]
        skip.setdefault(Reason.SUPERSEDED, []).extend(other.id for other in older)
        waiting[:] = [other for other in waiting if other.job_id != row.job_id]
    waiting.append(row)
