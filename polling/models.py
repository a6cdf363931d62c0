"""The polling scheduler's own tables: the state of each task, and the scheduler that initialised last.

The definition of a task is its job, its history is in the ledger; these tables hold what the next
decision needs and are therefore not pruned. Every change increments `revision`: a start decided from an
older revision updates no row.
"""

from datetime import timedelta
from typing import ClassVar

from django.db import models
from django.db.models import Q

from punctual.jobs.models import Job
from punctual.occurrences.models import TaskRun


class Roster(models.Model):
    """One row: the lock of `initialize`, and the scheduler whose registrations are in force."""

    SINGLETON_ID: ClassVar[int] = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=SINGLETON_ID, editable=False)
    scheduler_id = models.UUIDField(null=True, help_text="The scheduler that initialised last.")
    initialized_at = models.DateTimeField(null=True)
    digest = models.CharField(max_length=64, default="", help_text="SHA-256 of the registrations in force.")

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="there_is_one_roster")]

    def __str__(self) -> str:
        return f"registered by {self.scheduler_id} at {self.initialized_at}"


class TaskState(models.Model):
    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="polling_state")
    scheduler_id = models.UUIDField(help_text="The scheduler that registered or started it last.")
    retry_delay = models.DurationField()
    counts_from = models.DateTimeField(
        help_text="The minute in which it was registered; earlier minutes do not count."
    )
    last_attempt_at = models.DateTimeField(null=True)
    last_success_at = models.DateTimeField(null=True)
    pending_retry_until = models.DateTimeField(null=True)
    run = models.OneToOneField(
        TaskRun,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The run in progress, or the one that waits for its retry.",
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
