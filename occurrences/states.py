"""The states of an occurrence, a task run and an attempt, and every move between them.

These tables are the law: `transitions.py` is the only writer of a state column and takes its guards
from here; the state chart in docs/states.md is compared with them by a test.
"""

from collections.abc import Mapping

from django.db.models import TextChoices


class OccurrenceState(TextChoices):
    PENDING = "pending", "pending"  # a row ahead of its time
    QUEUED = "queued", "queued"  # due, waits for a slot or for its predecessor
    DISPATCHED = "dispatched", "dispatched"  # its runs exist, no worker has started yet
    RUNNING = "running", "running"  # at least one run was claimed
    COMPLETED = "completed", "completed"
    COMPLETED_WITH_ERRORS = "completed_with_errors", "completed with errors"
    FAILED = "failed", "failed"
    CANCELED = "canceled", "canceled"
    FAILED_STALE = "failed_stale", "failed (stale)"  # outlived its execution_timeout
    SKIPPED = "skipped", "skipped"  # deliberately not run
    MISSED = "missed", "missed"  # its time passed while nobody could run it


class RunState(TextChoices):
    SCHEDULED = "scheduled", "scheduled"
    CLAIMED = "claimed", "claimed"  # a worker holds it, in a bundle; not known to have begun
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
    LOST = "lost", "lost"  # its worker died or fell silent
    CANCELED = "canceled", "canceled"
    SNOOZED = "snoozed", "snoozed"
    RELEASED = "released", "handed back"  # its worker was told to stop; the run starts again elsewhere


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
RUN_OPEN = (R.SCHEDULED, *RUN_HELD, R.RETRY, R.FAILED)
RUN_FINAL = (R.SUCCESS, R.DLQ, R.CANCELED)

ATTEMPT_FINAL = tuple(state for state in AttemptState if state is not AttemptState.RUNNING)


def occurrence_sources(target: OccurrenceState) -> tuple[OccurrenceState, ...]:
    """The states an occurrence may come from to reach `target`: the guard of its UPDATE."""
    return tuple(state for state, targets in OCCURRENCE_MOVES.items() if target in targets)


def run_sources(target: RunState) -> tuple[RunState, ...]:
    return tuple(state for state, targets in RUN_MOVES.items() if target in targets)
