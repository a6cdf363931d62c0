"""Tallies of pruned rows, and the progress of pruning."""

from datetime import timedelta

from django.db import models

from punctual.jobs.models import Job


class Counter(models.TextChoices):
    OCCURRENCES = "occurrences", "finished occurrences"
    ATTEMPTS = "attempts", "finished attempts"
    RECOVERIES = "recoveries", "recovered occurrences"


class Tally(models.Model):
    """A count of pruned rows, raised in the transaction that deletes them; it never decreases."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+", db_index=False)
    counter = models.CharField(max_length=12, choices=Counter)
    task = models.CharField(max_length=200, blank=True, default="")
    label = models.CharField(max_length=24, help_text="The state, or the strategy of recovery.")
    count = models.PositiveBigIntegerField()

    class Meta:
        indexes = [
            # Totals: `GROUP BY counter, job, task, label`; and a job's own, to add to them.
            models.Index(fields=["counter", "job"], name="tally_of_job"),
        ]

    def __str__(self) -> str:
        return f"{self.count} {self.label}"


class Pruned(models.Model):
    """The instant up to which a job's occurrences may have been pruned, so that `verify` does not miss them.

    The row is also the lock of pruning the job: only the process that holds it deletes and counts.
    """

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="+")
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"until {self.until}"


class PruneRound(models.Model):
    """The position of the beats' pruning in its round through all jobs.

    There is one row; the beat that locks it continues from there. Without a job a new round starts; `at` and
    `row` are set in the middle of a job.
    """

    due_at = models.DateTimeField(help_text="When the next step is due.")
    began_at = models.DateTimeField(help_text="When this round started.")
    job = models.UUIDField(null=True, help_text="The job to continue with.")
    at = models.DateTimeField(null=True, help_text="The instant of the last row looked at.")
    row = models.UUIDField(null=True, help_text="The id of the last row looked at.")

    def __str__(self) -> str:
        return f"due {self.due_at}"


class MetricsSnapshot(models.Model):
    """The last totals for Prometheus: one row, shared by all web processes, because counting is expensive."""

    claimed_at = models.DateTimeField(help_text="When a web process last started to count.")
    cost = models.DurationField(default=timedelta(), help_text="How long counting took.")
    text = models.TextField(default="", help_text="The counters, in Prometheus' format.")
    durations = models.JSONField(default=dict, help_text="Seconds spent, by job and by task, ever.")
    counted_until = models.DateTimeField(null=True, help_text="Durations of what ended by then are included.")

    def __str__(self) -> str:
        return f"totals of {self.claimed_at}"
