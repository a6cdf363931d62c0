"""Two tables about workers and beats: how long a task's calls take, and which processes are alive."""

from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q

from punctual.jobs.models import Task


class PaceQuerySet(models.QuerySet["Pace"]):
    def within(self, seconds: float) -> "PaceQuerySet":
        """Of tasks whose recent calls took at most so long in 95 of 100 cases."""
        return self.filter(p95__lte=seconds)


class Pace(models.Model):
    """How long the recent calls of a task took, as one worker process measured it.

    A hint for dispatch. A lost or outdated pace costs speed and nothing else.
    """

    task = models.OneToOneField(Task, primary_key=True, on_delete=models.CASCADE, related_name="pace")
    p95 = models.FloatField(help_text="Seconds.")
    samples = models.PositiveIntegerField(help_text="Number of calls measured, all by one worker process.")
    measured_at = models.DateTimeField()

    objects = PaceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(p95__gte=0), name="pace_is_a_duration"),
        ]

    def __str__(self) -> str:
        return f"{self.task_id}: {self.p95:.3f} s"


class ProcessQuerySet(models.QuerySet["Process"]):
    def beats(self) -> "ProcessQuerySet":
        return self.filter(kind=Process.Kind.BEAT)

    def workers(self) -> "ProcessQuerySet":
        return self.filter(kind=Process.Kind.WORKER)

    def seen_since(self, instant: datetime) -> "ProcessQuerySet":
        return self.filter(seen_at__gte=instant)


class Process(models.Model):
    """A beat or a worker that has signed in and not signed out; written by `supervision.presence`."""

    class Kind(models.TextChoices):
        BEAT = "beat"
        WORKER = "worker"

    name = models.CharField(
        primary_key=True, max_length=255, help_text="A beat's host:pid; a worker's name in Celery."
    )
    kind = models.CharField(max_length=10, choices=Kind.choices)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField(help_text="End of a beat's last tick; last renewal by a worker.")
    tick_duration = models.DurationField(
        default=timedelta, help_text="How long a beat's last tick took; zero for a worker."
    )
    queues = models.JSONField(default=list, help_text="Names of the queues that a worker consumes.")

    objects = ProcessQuerySet.as_manager()

    class Meta:
        ordering = ["-seen_at"]
        verbose_name_plural = "processes"
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["beat", "worker"]), name="process_is_beat_or_worker"
            ),
        ]

    def __str__(self) -> str:
        return self.name
