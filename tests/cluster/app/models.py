"""Effects of tasks, one row per execution: evidence that a task ran once."""

from typing import ClassVar

from django.db import models


class Effect(models.Model):
    source = models.CharField(max_length=200, help_text="job/task, or the periodic task's name")
    run_id = models.UUIDField(null=True, help_text="null: not one of our runs")
    attempt = models.PositiveIntegerField(default=0)
    at = models.DateTimeField()

    objects: "ClassVar[models.Manager[Effect]]" = models.Manager()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.source} at {self.at}"
