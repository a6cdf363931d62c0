"""The one catalogue of events: every log line of the platform is an event with ids (OPS-6)."""

import logging
from enum import StrEnum

logger = logging.getLogger("punctual")


class Event(StrEnum):
    JOBS_SYNCED = "jobs.synced"
    JOB_UNPLANNABLE = "job.unplannable"
    OCCURRENCE_MISSED = "occurrence.missed"
    OCCURRENCE_RECOVERED = "occurrence.recovered"
    OCCURRENCE_FINISHED = "occurrence.finished"
    OCCURRENCE_STALE = "occurrence.stale"
    OCCURRENCES_PRUNED = "occurrences.pruned"
    HOOK_FAILED = "hook.failed"
    RUN_DISPATCH_FAILED = "run.dispatch_failed"
    RUN_RESENT = "run.resent"
    ATTEMPT_FAILED = "attempt.failed"
    ATTEMPT_LOST = "attempt.lost"
    ATTEMPT_ENDED = "attempt.ended"
    ATTEMPT_FENCED = "attempt.fenced"
    RESULT_WAITS = "result.waits"
    SUPERVISOR_TROUBLED = "supervisor.troubled"
    BEAT_TICKED = "beat.ticked"
    BEAT_TROUBLED = "beat.troubled"


def emit(event: Event, *, level: int = logging.INFO, **facts: object) -> None:
    if logger.isEnabledFor(level):
        text = " ".join(f"{key}={value}" for key, value in facts.items())
        logger.log(level, "%s %s", event, text, extra={"event": str(event), "facts": facts})
