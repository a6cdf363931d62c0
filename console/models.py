"""What the console keeps: the last totals for Prometheus, shared by all web processes."""

from datetime import timedelta

from django.db import models


class Snapshot(models.Model):
    """One row. Totals are dear to count over a large ledger, and the same for everybody who asks."""

    claimed_at = models.DateTimeField(help_text="When somebody last set out to count.")
    cost = models.DurationField(default=timedelta(), help_text="How long counting took.")
    text = models.TextField(default="", help_text="The counters, in Prometheus' format.")
    durations = models.JSONField(default=dict, help_text="Seconds spent, by job and by task, ever.")
    counted_until = models.DateTimeField(null=True, help_text="Durations of what ended up to then are in.")

    def __str__(self) -> str:
        return f"totals of {self.claimed_at}"
