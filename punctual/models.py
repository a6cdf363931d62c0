"""All models of the core, gathered from their rooms: one Django app, one table prefix."""

from punctual.execution.models import HookCall, Pace, Process, Rejection
from punctual.jobs.models import Job, JobVersion, Task
from punctual.occurrences.models import Attempt, Cursor, IdempotencyKey, Occurrence, Pool, TaskRun
from punctual.operations.models import Audit
from punctual.polling.models import Roster, TaskState
from punctual.recovery.models import (
    MetricsSnapshot,
    Pruned,
    PruneRound,
    Tally,
)

__all__ = [
    "Attempt",
    "Audit",
    "Cursor",
    "HookCall",
    "IdempotencyKey",
    "Job",
    "JobVersion",
    "MetricsSnapshot",
    "Occurrence",
    "Pace",
    "Pool",
    "Process",
    "PruneRound",
    "Pruned",
    "Rejection",
    "Roster",
    "Tally",
    "Task",
    "TaskRun",
    "TaskState",
]
