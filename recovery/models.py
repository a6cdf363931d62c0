"""What recovery remembers: who asked for what, counts of rows that are gone, and how far they are gone."""

from django.db import models

from jobs.models import Job


class Action(models.TextChoices):
    REPLAY = "replay", "replay"
    BACKFILL = "backfill", "backfill"
    CANCEL = "cancel", "cancel"
    SKIP = "skip", "skip"
    DLQ_REPLAY = "dlq_replay", "replay of dead letters"
    DLQ_PURGE = "dlq_purge", "purge of dead letters"
    PRUNE = "prune", "prune"
    RECOVER = "recover", "catch-up"
    REAP = "reap", "reap"
    RESEND = "resend", "resend"
    SETTLE = "settle", "settle"


class Audit(models.Model):
    """One request of an operator. Its count rises with each transaction that does a part of it."""

    action = models.CharField(max_length=12, choices=Action)
    requested_by = models.CharField(max_length=200)
    reason = models.CharField(max_length=500, blank=True, default="")
    at = models.DateTimeField()
    count = models.PositiveIntegerField(help_text="How many rows it made or changed.")
    details = models.JSONField(default=dict, help_text="What was asked for.")
    finished = models.BooleanField(help_text="No: under way, or broken off; what is counted is done.")

    class Meta:
        ordering = ["-id"]
        permissions = [
            ("backfill_job", "Can fill in past occurrences of a job"),
            ("prune_job", "Can delete what is older than a job's retention"),
            ("recover_job", "Can catch up what was missed"),
            ("reap_run", "Can take back what was abandoned"),
            ("resend_run", "Can send unconfirmed messages again"),
            ("settle_occurrence", "Can have occurrences settled that are over"),
        ]
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.get_action_display()} by {self.requested_by}"


class Counter(models.TextChoices):
    OCCURRENCES = "occurrences", "occurrences that are over"
    ATTEMPTS = "attempts", "attempts that are over"
    RECOVERIES = "recoveries", "occurrences recovery made up for"


class Tally(models.Model):
    """Rows that were pruned, counted: written in the transaction that deletes them; it only ever grows."""

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
    """How far back a job's instants may be gone, so that nobody takes them for lost.

    Its row is the mutex of pruning a job: whoever holds it deletes and counts, nobody else does.
    """

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="+")
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"until {self.until}"


class PruneRound(models.Model):
    """Where the beats' pruning is on its way through all jobs. One row: whoever holds it goes on from there.

    Without a job a new round begins; `at` and `row` are set in the middle of a job.
    """

    due_at = models.DateTimeField(help_text="When somebody has to go on.")
    began_at = models.DateTimeField(help_text="When this round began.")
    job = models.UUIDField(null=True, help_text="The job it has come to.")
    at = models.DateTimeField(null=True, help_text="The instant of the row it looked at last.")
    row = models.UUIDField(null=True, help_text="The row it looked at last.")

    def __str__(self) -> str:
        return f"due {self.due_at}"
