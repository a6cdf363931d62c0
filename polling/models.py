"""What the polling scheduler remembers beside the ledger: per task its attempts, and who initialised last.

The definition is the job's row, the history the ledger's; here is only what the next decision needs,
so it outlives the pruning of old runs. Every change counts `revision` up: a start decided from an
older revision finds nothing to update.
"""

from datetime import timedelta
from typing import ClassVar

from django.db import models
from django.db.models import Q

from jobs.models import Job
from occurrences.models import TaskRun


class Roster(models.Model):
    """One row: the mutex of `initialize`, and whose registrations are in force."""

    THE_ONE: ClassVar[int] = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=THE_ONE, editable=False)
    scheduler_id = models.UUIDField(null=True, help_text="The scheduler that initialised last.")
    initialized_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="there_is_one_roster")]

    def __str__(self) -> str:
        return f"registered by {self.scheduler_id} at {self.initialized_at}"


class TaskState(models.Model):
    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="polling_state")
    scheduler_id = models.UUIDField(help_text="The scheduler that registered or started it last.")
    retry_delay = models.DurationField()
    counts_from = models.DateTimeField(help_text="The minute it was registered in; none before it is owed.")
    last_attempt_at = models.DateTimeField(null=True)
    last_success_at = models.DateTimeField(null=True)
    pending_retry_until = models.DateTimeField(null=True)
    run = models.OneToOneField(
        TaskRun,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Running, or waits to retry.",
    )
    revision = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(retry_delay__gte=timedelta()), name="polling_retry_delay_is_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"polling state of {self.job_id}"
