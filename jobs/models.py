"""Definitions as rows: a Job has Tasks, and a JobVersion for every change.

Sync, files, the console and commands write these rows; beats and workers only read them. A beat keeps its
progress in `occurrences.Cursor`, so an edit of a job cannot undo it.
"""

from django.db import models
from django.db.models import Q

from punctual.jobs.config.policy import SUSPENDED, is_suspended
from punctual.jobs.ids import format_id

# Jobs that start nothing: an operator has paused them, or their schedules say so.
HELD = Q(paused_at__isnull=False) | Q(schedule__regex=SUSPENDED)


class Origin(models.TextChoices):
    CODE = "code", "declared in code"
    ADMIN = "admin", "made in the admin"
    FILE = "file", "applied from a file"
    POLLING = "polling", "registered by a polling scheduler"


class JobQuerySet(models.QuerySet["Job"]):
    def registered(self) -> "JobQuerySet":
        return self.filter(removed_at=None)

    def active(self) -> "JobQuerySet":
        return self.registered().filter(enabled=True)


class Job(models.Model):
    id = models.UUIDField(primary_key=True, editable=False)
    name = models.CharField(max_length=200, unique=True)
    schedule = models.CharField(
        max_length=1000, help_text="Chronex by default; a prefix such as `posix:` selects another kind."
    )
    config = models.JSONField(default=dict, blank=True, help_text="Overrides only; the rest is inherited.")
    metadata = models.JSONField(default=dict, blank=True, help_text="Passed to tasks as ctx.metadata.")
    origin = models.CharField(max_length=10, choices=Origin, default=Origin.ADMIN)
    version = models.PositiveIntegerField(default=1)
    enabled = models.BooleanField(default=True)
    paused_at = models.DateTimeField(null=True, blank=True)
    pause_reason = models.CharField(max_length=500, blank=True, default="", db_default="")
    paused_until = models.DateTimeField(
        null=True, blank=True, help_text="A beat resumes the job then; null: an operator does."
    )
    pause_backlog = models.CharField(
        max_length=10,
        blank=True,
        default="",
        db_default="",
        help_text="Which skipped instants run when a beat resumes the job.",
    )
    removed_at = models.DateTimeField(
        null=True, blank=True, help_text="When its declaration was removed; the row stays for its history."
    )
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField(help_text="When its definition last changed; planning starts there.")
    anchored_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When its schedule last changed: `@once +1h` counts from there. Null: never.",
    )

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        permissions = [
            ("trigger_job", "Can run a job now"),
            ("pause_job", "Can pause and resume a job"),
            ("send_messages", "Can define jobs that send any Celery message"),
        ]
        indexes = [
            # Start-up of a beat: the jobs declared in code that are still registered.
            models.Index(
                fields=["id"], condition=Q(origin="code", removed_at__isnull=True), name="job_declared"
            ),
        ]
        constraints = [
            models.CheckConstraint(condition=~Q(name=""), name="job_has_a_name"),
            models.CheckConstraint(condition=Q(version__gte=1), name="job_version_starts_at_one"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def display_id(self) -> str:
        return format_id("job", self.id)

    @property
    def paused(self) -> bool:
        return self.paused_at is not None

    @property
    def suspended(self) -> bool:
        """Whether its schedule says so; that holds it like a pause, until the schedule is edited."""
        return is_suspended(self.schedule)

    @property
    def removed(self) -> bool:
        return self.removed_at is not None


class Pause(models.Model):
    """A pause that is over; the current one is in the row of its job.

    A database trigger inserts the row when raw SQL has ended the pause.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="pauses", db_index=False)
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    reason = models.CharField(max_length=500, blank=True, default="")
    backlog = models.CharField(max_length=10, help_text="Which skipped instants ran when it ended.")

    class Meta:
        ordering = ["job", "began_at"]
        constraints = [
            models.UniqueConstraint(fields=["job", "began_at"], name="one_pause_per_beginning"),
            models.CheckConstraint(
                condition=Q(ended_at__gte=models.F("began_at")), name="pause_ends_after_it_begins"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.began_at:%Y-%m-%d %H:%M:%S} to {self.ended_at:%Y-%m-%d %H:%M:%S}"


class TaskQuerySet(models.QuerySet["Task"]):
    def current(self) -> "TaskQuerySet":
        return self.filter(retired_at=None)


class Task(models.Model):
    id = models.UUIDField(primary_key=True, editable=False)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="tasks", db_index=False)
    name = models.CharField(max_length=200)
    function = models.CharField(max_length=500, help_text="Name of a function that code registers.")
    position = models.PositiveIntegerField()
    config = models.JSONField(default=dict, blank=True, help_text="Overrides only; the rest is inherited.")
    retired_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = TaskQuerySet.as_manager()

    class Meta:
        ordering = ["job", "position"]
        constraints = [
            models.UniqueConstraint(fields=["job", "name"], name="one_task_per_name"),
            models.CheckConstraint(condition=~Q(name=""), name="task_has_a_name"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def display_id(self) -> str:
        return format_id("task", self.id)


class JobVersion(models.Model):
    """One change of a definition; rows are inserted, never updated."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="versions", db_index=False)
    number = models.PositiveIntegerField()
    author = models.CharField(max_length=200)
    reason = models.CharField(max_length=500, blank=True, default="")
    before = models.JSONField(
        null=True, help_text="The definition before the change; null for the first version."
    )
    after = models.JSONField(help_text="The definition after the change.")
    created_at = models.DateTimeField()
    counts_from = models.DateTimeField(
        null=True,
        help_text="Instants count from here: an occurrence of the previous version was kept until then.",
    )

    class Meta:
        ordering = ["job", "-number"]
        verbose_name = "version"
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="one_version_per_number"),
            models.CheckConstraint(condition=Q(number__gte=1), name="versions_start_at_one"),
        ]

    def __str__(self) -> str:
        return f"version {self.number}"
