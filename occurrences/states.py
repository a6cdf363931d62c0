"""The states of occurrences, task runs and attempts, the moves between them, and the reasons for them.

`transitions.py` is the only writer of a state column and takes its guards from these tables. A test compares
the state chart in docs/states.md with them.
"""

from collections.abc import Mapping
from functools import cache

from django.db.models import TextChoices


class OccurrenceState(TextChoices):
    PENDING = "pending", "pending"  # planned; its start time is ahead
    QUEUED = "queued", "queued"  # due; waits for a pool slot or for its predecessor
    DISPATCHED = "dispatched", "dispatched"  # its runs exist; no worker has claimed one
    RUNNING = "running", "running"  # a worker has claimed at least one run
    COMPLETED = "completed", "completed"
    COMPLETED_WITH_ERRORS = "completed_with_errors", "completed with errors"
    FAILED = "failed", "failed"
    CANCELED = "canceled", "canceled"
    FAILED_STALE = "failed_stale", "failed (stale)"  # exceeded its execution_timeout
    SKIPPED = "skipped", "skipped"  # deliberately not run
    MISSED = "missed", "missed"  # its time passed while no beat could fire it


class RunState(TextChoices):
    SCHEDULED = "scheduled", "scheduled"
    CLAIMED = "claimed", "claimed"  # a worker holds it in a bundle; it may not have started
    RUNNING = "running", "running"
    RETRY = "retry", "waiting to retry"
    SUCCESS = "success", "success"
    FAILED = "failed", "failed"
    DLQ = "dlq", "dead letter"
    CANCELED = "canceled", "canceled"


class AttemptState(TextChoices):
    RUNNING = "running", "running"
    SUCCESS = "success", "success"
    FAILED = "failed", "failed"
    TIMEOUT = "timeout", "timed out"
    LOST = "lost", "lost"  # its worker died or stopped renewing the lease
    CANCELED = "canceled", "canceled"
    SNOOZED = "snoozed", "snoozed"
    RELEASED = "released", "handed back"  # its worker was told to stop; the run starts again elsewhere


class Reason(TextChoices):
    """Why a row waits, did not run, or was ended: the value is stored in `reason`, the label explains it.

    Canceled and parked runs may hold other texts: what a task gave to `Cancel`, or "failed after 3 attempts".
    """

    # Planning and catch-up
    UNSCHEDULABLE = "unschedulable", "No start time satisfies the spread."
    WINDOW = "window", "The schedule's window had closed before the occurrence could start."
    DOWNTIME = "downtime", "No beat fired it in time, and the recovery policy does not run it."
    EDITED = "edited", "The job was edited while more instants were late than can be kept."
    COMPRESSING = "waits for its compressed run", "A compressed run that covers it is still to come."
    COMPRESSED = "compressed", "A compressed run covers it."
    # Admission: the occurrence waits
    POOL = "pool", "Its pool has no free slot."
    MAX_ACTIVE = "max_active", "As many occurrences are active as the setting max_active allows."
    CATCH_UP = "catch-up", "A recovered, replayed or backfilled occurrence of its job was active; it is next."
    REQUESTED = "requested", "A replay or backfill waits for the active occurrence of its job."
    # Admission: the occurrence waits or is skipped, as the overlap policy says
    OVERLAP = "overlap", "Another occurrence of its job was active."
    SUPERSEDED = "superseded", "A newer occurrence of its job took its place in the queue."
    REPLACED = "replaced", "A newer occurrence of its job replaced it."
    # Admission: the job does not start anything
    PAUSED = "paused", "The job was paused."
    STOPPED = "stopped", "The job was disabled."
    REMOVED = "removed", "The job was removed."
    NO_TASKS = "no tasks", "The job had no tasks."
    UNUSABLE_CONFIG = "unusable configuration", "The stored configuration of the job is invalid."
    MAX_STARTS = "max", "The schedule had reached its `max` starts."
    # Operators, workers and the sweeper
    OPERATOR = "operator", "An operator ended or skipped it."
    EXECUTION_TIMEOUT = "execution timeout", "The occurrence exceeded its execution_timeout."
    NEVER_CLAIMED = "never claimed", "No worker took a run within its dispatch_timeout."
    OTHER_TASK_FAILED = "a task before or beside it failed", "The failure of another task ended it."
    CANCELED_BY_TASK = "canceled by the task", "The task raised Cancel without a text."
    NON_RETRYABLE = "non-retryable", "The task raised NonRetryable."
    # The polling scheduler
    LATER_MINUTE = "superseded by a later minute", "A later minute started before its retry."
    NOT_REGISTERED = "no longer registered", "The task is no longer registered with the scheduler."
    REGISTERED_ANEW = "registered anew", "The task was registered again before its retry."


# Values of `models.Cause`. What catches up starts at the job's `recovery_rate`, behind what is live.
LIVE_CAUSES = ("schedule", "manual")
CATCH_UP_CAUSES = ("recovery", "replay", "backfill")

S, R = OccurrenceState, RunState

OCCURRENCE_MOVES: Mapping[OccurrenceState, frozenset[OccurrenceState]] = {
    S.PENDING: frozenset({S.QUEUED, S.DISPATCHED, S.CANCELED, S.SKIPPED, S.MISSED}),
    S.QUEUED: frozenset({S.DISPATCHED, S.CANCELED, S.SKIPPED, S.MISSED}),
    S.DISPATCHED: frozenset(
        {S.RUNNING, S.COMPLETED, S.COMPLETED_WITH_ERRORS, S.FAILED, S.CANCELED, S.FAILED_STALE}
    ),
    S.RUNNING: frozenset({S.COMPLETED, S.COMPLETED_WITH_ERRORS, S.FAILED, S.CANCELED, S.FAILED_STALE}),
}

RUN_MOVES: Mapping[RunState, frozenset[RunState]] = {
    R.SCHEDULED: frozenset({R.CLAIMED, R.CANCELED}),
    R.CLAIMED: frozenset({R.RUNNING, R.SCHEDULED, R.CANCELED}),
    R.RUNNING: frozenset({R.SUCCESS, R.FAILED, R.RETRY, R.SCHEDULED, R.CANCELED}),
    R.RETRY: frozenset({R.SCHEDULED, R.CANCELED}),
    R.FAILED: frozenset({R.DLQ, R.RETRY, R.SCHEDULED, R.CANCELED}),
    R.DLQ: frozenset({R.SCHEDULED}),
}

OCCURRENCE_ACTIVE = (S.DISPATCHED, S.RUNNING)
OCCURRENCE_OPEN = (S.PENDING, S.QUEUED, *OCCURRENCE_ACTIVE)
OCCURRENCE_NOT_RUN = (S.SKIPPED, S.MISSED)
OCCURRENCE_FINAL = tuple(state for state in S if state not in OCCURRENCE_OPEN)

RUN_HELD = (R.CLAIMED, R.RUNNING)
RUN_MOVING = (R.SCHEDULED, *RUN_HELD, R.FAILED)
RUN_OPEN = (*RUN_MOVING, R.RETRY)
RUN_FINAL = (R.SUCCESS, R.DLQ, R.CANCELED)

ATTEMPT_FINAL = tuple(state for state in AttemptState if state is not AttemptState.RUNNING)


@cache
def occurrence_sources(target: OccurrenceState) -> tuple[OccurrenceState, ...]:
    """The states from which an occurrence may move to `target`: the guard of the UPDATE."""
    return tuple(state for state, targets in OCCURRENCE_MOVES.items() if target in targets)


def run_sources(target: RunState) -> tuple[RunState, ...]:
    """The states from which a run may move to `target`."""
    return tuple(state for state, targets in RUN_MOVES.items() if target in targets)
