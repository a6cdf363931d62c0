"""Store the audit: who requested which action, when, why, and how many rows it changed."""

from django.db import models


class AuditedAction(models.TextChoices):
    RUN = "run", "run now"
    PAUSE = "pause", "pause"
    RESUME = "resume", "resume"
    STOP = "stop", "stop"
    START = "start", "start"
    REMOVE = "remove", "removal of a job"
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
    """One request of an operator. `count` grows with each transaction of the request."""

    action = models.CharField(max_length=12, choices=AuditedAction)
    requested_by = models.CharField(max_length=200)
    reason = models.CharField(max_length=500, blank=True, default="")
    at = models.DateTimeField()
    count = models.PositiveIntegerField(help_text="How many rows it created or changed.")
    details = models.JSONField(default=dict, help_text="What was requested.")
    finished = models.BooleanField(help_text="No: in progress or interrupted; counted rows are committed.")

    class Meta:
        ordering = ["-id"]
        permissions = [
            ("backfill_job", "Can backfill past occurrences of a job"),
            ("prune_job", "Can delete what is older than a job's retention"),
            ("recover_job", "Can catch up late jobs"),
            ("reap_run", "Can reap abandoned runs"),
            ("resend_run", "Can send unconfirmed messages again"),
            ("settle_occurrence", "Can settle ended occurrences"),
        ]
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.get_action_display()} by {self.requested_by}"
