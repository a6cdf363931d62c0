"""How long a task's function takes, as its workers have seen it lately; and which workers there are."""

from django.db import models
from django.db.models import Q

from jobs.models import Task


class PaceQuerySet(models.QuerySet["Pace"]):
    def within(self, seconds: float) -> "PaceQuerySet":
        """Of tasks nineteen in twenty of whose recent calls were that short."""
        return self.filter(p95__lte=seconds)


class Pace(models.Model):
    """A hint for dispatch, never the truth: losing it, or a late one, costs speed and nothing else."""

    task = models.OneToOneField(Task, primary_key=True, on_delete=models.CASCADE, related_name="pace")
    p95 = models.FloatField(help_text="Seconds.")
    samples = models.PositiveIntegerField(help_text="Calls it was taken from, all of one worker process.")
    measured_at = models.DateTimeField()

    objects = PaceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(p95__gte=0), name="pace_is_a_duration"),
        ]

    def __str__(self) -> str:
        return f"{self.task_id}: {self.p95:.3f} s"


class Worker(models.Model):
    """One row per worker on duty; see `presence`."""

    name = models.CharField(primary_key=True, max_length=255, help_text="As Celery names it.")
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
