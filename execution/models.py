"""Tables of the workers: calls of hooks, the pace of tasks, living processes, messages that were rejected."""

from datetime import datetime, timedelta
from typing import Self

from django.db import models
from django.db.models import Exists, OuterRef, Q

from punctual.jobs.models import Task
from punctual.occurrences.models import Occurrence

HUNG_FOR = timedelta(minutes=10)


class HookEvent(models.TextChoices):
    ON_START = "on_start", "on_start"
    ON_COMPLETE = "on_complete", "on_complete"


class HookCallQuerySet(models.QuerySet["HookCall"]):
    def open(self) -> Self:
        """Not over: waiting for a call, or being called."""
        return self.filter(finished_at=None)

    def waiting(self, now: datetime) -> Self:
        """Open, and no process is calling it."""
        return self.open().filter(Q(lease_until=None) | Q(lease_until__lte=now))

    def hanging(self, now: datetime) -> Self:
        """Calls of hooks that hung recently, for the same job."""
        return self.filter(_hung_recently(now))

    def sound(self, now: datetime) -> Self:
        return self.filter(~_hung_recently(now))


def _hung_recently(now: datetime) -> Exists:
    same = {"hook": OuterRef("hook"), "occurrence__job": OuterRef("occurrence__job")}
    return Exists(HookCall.objects.filter(**same, hung_at__gt=now - HUNG_FOR))


class HookCall(models.Model):
    """One hook to call for one occurrence; the row remains as the record of how it went (JOB-9).

    Inserted when the hook is due. A process claims the row before it calls the hook: the lease says until
    when no other process calls it, and `slot` is unique, so that only so many hooks run at once.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    occurrence = models.ForeignKey(
        Occurrence, on_delete=models.CASCADE, related_name="hook_calls", db_index=False
    )
    event = models.CharField(max_length=12, choices=HookEvent)
    hook = models.CharField(max_length=500, help_text="Name of a hook that code registers.")
    position = models.PositiveIntegerField(help_text="Hooks of one event are called in this order.")
    tries = models.PositiveIntegerField(default=0)
    slot = models.PositiveIntegerField(null=True, help_text="While it is called: one of `hook_slots`.")
    token = models.UUIDField(null=True, help_text="Fencing token of the process that calls it.")
    worker = models.CharField(max_length=200, blank=True, default="")
    lease_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    requested_at = models.DateTimeField(null=True, help_text="When a worker was last asked to call it.")
    started_at = models.DateTimeField(null=True, help_text="Start of the last try.")
    hung_at = models.DateTimeField(null=True, help_text="When a try was last killed, or its process died.")
    finished_at = models.DateTimeField(null=True)
    failed = models.BooleanField(default=False)
    error = models.TextField(blank=True, default="")

    objects = HookCallQuerySet.as_manager()

    class Meta:
        ordering = ["occurrence", "-event", "position"]
        verbose_name = "call of a hook"
        verbose_name_plural = "calls of hooks"
        indexes = [
            # Calls to make: `finished_at IS NULL ORDER BY created_at`.
            models.Index(fields=["created_at"], condition=Q(finished_at__isnull=True), name="hook_call_open"),
            # Whether a hook hung recently: `hook = … AND hung_at > t`.
            models.Index(
                fields=["hook", "hung_at"], condition=Q(hung_at__isnull=False), name="hook_call_hung"
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["occurrence", "event", "hook"], name="one_call_per_hook"),
            models.UniqueConstraint(
                fields=["slot"], condition=Q(slot__isnull=False), name="one_call_per_hook_slot"
            ),
            models.CheckConstraint(
                condition=Q(slot__isnull=True, token__isnull=True, lease_until__isnull=True)
                | Q(slot__isnull=False, token__isnull=False, lease_until__isnull=False, finished_at=None),
                name="hook_slot_iff_called",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.hook}"

    @property
    def result(self) -> str:
        """`waiting`, `running`, `failed`, `succeeded`, or `not called` if its occurrence was over."""
        if self.finished_at is None:
            return "waiting" if self.slot is None else "running"
        if self.failed:
            return "failed"
        return "succeeded" if self.tries else "not called"


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


class Rejection(models.Model):
    """Messages that workers could not read, by queue and problem; written by `worker.intake`.

    One row per queue and problem, so a flood of such messages does not fill the database.
    """

    queue = models.CharField(max_length=255, blank=True, help_text="Empty: not known.")
    problem = models.CharField(max_length=20, help_text="unreadable, malformed or unknown_task.")
    count = models.PositiveBigIntegerField(default=0)
    last_at = models.DateTimeField()
    worker = models.CharField(max_length=255, blank=True, default="")
    sample = models.TextField(blank=True, default="", help_text="The newest of them, shortened and redacted.")

    class Meta:
        ordering = ["queue", "problem"]
        constraints = [
            models.UniqueConstraint(fields=["queue", "problem"], name="one_count_per_queue_and_problem"),
        ]

    def __str__(self) -> str:
        return f"{self.queue or '?'}: {self.count} {self.problem}"
