"""One row per beat process: proof of life for the operator and for /readyz."""

from django.db import models


class Beat(models.Model):
    name = models.CharField(primary_key=True, max_length=200, help_text="host:pid")
    started_at = models.DateTimeField()
    ticked_at = models.DateTimeField()
    lag = models.DurationField(help_text="How long the last tick took.")

    class Meta:
        ordering = ["-ticked_at"]

    def __str__(self) -> str:
        return self.name
