"""The ledger as rows: Occurrence (job × instant) → TaskRun (task × occurrence) → Attempt (one try).

Every instant is aware UTC. The database refuses impossible rows: one active occurrence per exclusive
job, finished exactly when final, a claim exactly while a worker holds the run.
"""

from datetime import datetime

from django.db import models
from django.db.models import F, Q

from jobs.ids import shown
from jobs.models import Job, Task
from occurrences import arrays  # noqa: F401 - registers the lookup `any`
from occurrences.rules import Rules
from occurrences.states import (
    ATTEMPT_FINAL,
    OCCURRENCE_ACTIVE,
    OCCURRENCE_FINAL,
    OCCURRENCE_NOT_RUN,
    RUN_FINAL,
    RUN_HELD,
    AttemptState,
    OccurrenceState,
    RunState,
)


class Cause(models.TextChoices):
    """Who asked for an occurrence."""

    SCHEDULE = "schedule", "schedule"
    RECOVERY = "recovery", "recovery"
    MANUAL = "manual", "manual"
    REPLAY = "replay", "replay"
    BACKFILL = "backfill", "backfill"


class CursorQuerySet(models.QuerySet["Cursor"]):
    def due(self, now: datetime) -> "CursorQuerySet":
        return self.filter(plan_at__lte=now)


class Cursor(models.Model):
    """How far a job is planned, and the per-job mutex of planning, firing and admission.

    A database trigger on the jobs table resets `planned_until` and `plan_at`, so that an edit by any
    road, raw SQL included, is planned anew at the next tick.
    """

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="cursor")
    settled_until = models.DateTimeField(help_text="Never moves back; nothing at or before it is created.")
    planned_until = models.DateTimeField(null=True, help_text="Look-ahead; null after an edit.")
    plan_at = models.DateTimeField(null=True, help_text="When planning is next needed; null: nothing ahead.")
    problem = models.TextField(blank=True, default="", help_text="Why it cannot be planned.")
    starts = models.PositiveIntegerField(
        default=0, help_text="Starts its schedule has had; `max` bounds them."
    )

    objects = CursorQuerySet.as_manager()

    class Meta:
        indexes = [
            # Planning: `plan_at <= now ORDER BY plan_at`.
            models.Index(fields=["plan_at"], condition=Q(plan_at__isnull=False), name="cursor_due"),
        ]

    def __str__(self) -> str:
        return f"cursor of {self.job_id}"


class Pool(models.Model):
    """How many occurrences may be active at once; its row is the mutex of admission into it."""

    name = models.CharField(primary_key=True, max_length=100)
    size = models.PositiveIntegerField()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class IdempotencyKey(models.Model):
    """A second trigger with the same key, within its time, finds the first one's occurrence (TSK-4)."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, db_index=False)
    key = models.CharField(max_length=200)
    occurrence = models.ForeignKey("Occurrence", on_delete=models.CASCADE)
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job", "key"], name="one_occurrence_per_idempotency_key_of_a_job"
            ),
        ]

    def __str__(self) -> str:
        return self.key


class OccurrenceQuerySet(models.QuerySet["Occurrence"]):
    def due(self, now: datetime) -> "OccurrenceQuerySet":
        """Pending, and its chosen time has come."""
        return self.filter(state=OccurrenceState.PENDING, run_at__lte=now)

    def timely(self, now: datetime) -> "OccurrenceQuerySet":
        return self.filter(Q(late_at__isnull=True) | Q(late_at__gt=now))

    def late(self, now: datetime) -> "OccurrenceQuerySet":
        return self.filter(late_at__lte=now)

    def active(self) -> "OccurrenceQuerySet":
        return self.filter(state__in=OCCURRENCE_ACTIVE)

    def waiting(self) -> "OccurrenceQuerySet":
        return self.filter(state=OccurrenceState.QUEUED)

    def overdue(self, now: datetime) -> "OccurrenceQuerySet":
        return self.active().filter(deadline_at__lte=now)

    def unfinalized(self) -> "OccurrenceQuerySet":
        return self.filter(finished_at__isnull=False, finalized_at=None)

    def unsettled(self) -> "OccurrenceQuerySet":
        """Something is left to be done: a next step, or its hooks."""
        return self.active() | self.unfinalized()


class Occurrence(models.Model):
    id = models.UUIDField(primary_key=True, editable=False)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="occurrences", db_index=False)
    job_version = models.PositiveIntegerField()
    cause = models.CharField(max_length=10, choices=Cause, default=Cause.SCHEDULE)
    scheduled_for = models.DateTimeField(help_text="The instant the schedule names.")
    run_at = models.DateTimeField(help_text="The instant chosen after stagger, jitter and spread.")
    late_at = models.DateTimeField(null=True, help_text="Unfired by then, it is a matter for recovery.")
    state = models.CharField(max_length=24, choices=OccurrenceState, default=OccurrenceState.PENDING)
    reason = models.CharField(max_length=200, blank=True, default="")
    exclusive = models.BooleanField(help_text="Refuses a second active occurrence of its job.")
    pool = models.CharField(max_length=100, default="default", help_text="Whose slots it takes.")
    priority = models.IntegerField(default=0, help_text="Higher starts first when slots are scarce.")
    expires_at = models.DateTimeField(null=True, help_text="Must not start after it: the schedule's window.")
    config = models.JSONField(default=dict, help_text="Effective configuration it runs with.")
    overrides = models.JSONField(default=dict, help_text="What this one occurrence overrides.")
    args = models.JSONField(default=dict, help_text="Arguments of a manual run.")
    parent = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="children", help_text="What it repeats."
    )
    covers = models.JSONField(null=True, help_text="The instants one compressed run stands for.")
    spans_until = models.DateTimeField(null=True, help_text="Last instant of a row that stands for a range.")
    instants = models.PositiveIntegerField(default=1, help_text="How many instants the row stands for.")
    only_tasks = models.JSONField(null=True, help_text="Ids of the tasks it runs; null: all of them.")
    requested_by = models.CharField(max_length=200, blank=True, default="", help_text="Who asked for it.")
    request_reason = models.CharField(
        max_length=500, blank=True, default="", help_text="Why, in their words."
    )
    report = models.JSONField(null=True, help_text="What became of it.")
    created_at = models.DateTimeField()
    fired_at = models.DateTimeField(null=True, help_text="Its runs were created.")
    started_at = models.DateTimeField(null=True, help_text="A worker claimed its first run.")
    execution_timeout = models.DurationField()
    deadline_at = models.DateTimeField(null=True, help_text="started_at + execution_timeout")
    finished_at = models.DateTimeField(null=True)
    finalized_at = models.DateTimeField(null=True, help_text="Its completion hooks were called.")
    asked_at = models.DateTimeField(null=True, help_text="A worker was last asked to settle it.")

    objects = OccurrenceQuerySet.as_manager()

    class Meta:
        ordering = ["-scheduled_for"]
        indexes = [
            # Firing: `state = pending AND run_at <= now ORDER BY run_at`.
            models.Index(fields=["run_at"], condition=Q(state="pending"), name="occurrence_due"),
            # Admission: who is next in a pool; how many slots of it are taken.
            models.Index(
                fields=["pool", "-priority", "run_at"], condition=Q(state="queued"), name="occurrence_in_line"
            ),
            models.Index(
                fields=["pool"], condition=Q(state__in=OCCURRENCE_ACTIVE), name="occurrence_in_pool"
            ),
            # Admission: the oldest waiting occurrence of a job.
            models.Index(fields=["job", "run_at"], condition=Q(state="queued"), name="occurrence_waiting"),
            # Sweeps over what is under way: `state IN active AND deadline_at <= now`.
            models.Index(
                fields=["deadline_at"],
                condition=Q(state__in=OCCURRENCE_ACTIVE),
                name="occurrence_under_way",
            ),
            # Hooks still owed: `finished_at IS NOT NULL AND finalized_at IS NULL`.
            models.Index(
                fields=["finished_at"],
                condition=Q(finished_at__isnull=False, finalized_at__isnull=True),
                name="occurrence_unfinalized",
            ),
            # A job's history, newest first.
            models.Index(fields=["job", "-scheduled_for"], name="occurrence_history"),
            # The admin's list of all jobs, newest first, and by state.
            models.Index(fields=["-scheduled_for"], name="occurrence_newest"),
            models.Index(fields=["state", "-scheduled_for"], name="occurrence_by_state"),
            # The same list by cause; what a schedule asked for is nearly everything, and needs none.
            models.Index(
                fields=["cause", "-scheduled_for"], condition=~Q(cause="schedule"), name="occurrence_by_cause"
            ),
            # The few rows that stand for many instants: which of them touch a span of the past?
            models.Index(
                fields=["job", "scheduled_for"],
                condition=Q(spans_until__isnull=False),
                name="occurrence_ranges",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["job"],
                condition=Q(exclusive=True, state__in=OCCURRENCE_ACTIVE),
                name="one_active_occurrence_per_exclusive_job",
            ),
            Rules(
                name="occurrence_is_possible",
                rules={
                    "occurrence_state_is_known": Q(state__in=OccurrenceState.values),
                    "occurrence_finished_iff_final": Q(state__in=OCCURRENCE_FINAL, finished_at__isnull=False)
                    | (~Q(state__in=OCCURRENCE_FINAL) & Q(finished_at__isnull=True)),
                    "occurrence_running_has_started": ~Q(state="running") | Q(started_at__isnull=False),
                    "occurrence_active_was_fired": ~Q(state__in=OCCURRENCE_ACTIVE)
                    | Q(fired_at__isnull=False),
                    # A range is for what will never run: nothing can be executed for many instants at once.
                    "occurrence_range_never_runs": Q(spans_until__isnull=True, instants=1)
                    | Q(
                        spans_until__isnull=False,
                        spans_until__gt=F("scheduled_for"),
                        instants__gt=1,
                        state__in=OCCURRENCE_NOT_RUN,
                    ),
                },
            ),
        ]
        permissions = [
            ("cancel_occurrence", "Can cancel an occurrence"),
            ("replay_occurrence", "Can replay an occurrence"),
        ]

    def __str__(self) -> str:
        return f"{self.shown_id} {self.scheduled_for:%Y-%m-%d %H:%M:%S}"

    @property
    def shown_id(self) -> str:
        return shown("occ", self.id)


class Resolution(models.TextChoices):
    """What became of a dead letter."""

    REPLAYED = "replayed", "replayed"
    PURGED = "purged", "purged"


class TaskRunQuerySet(models.QuerySet["TaskRun"]):
    def dead(self) -> "TaskRunQuerySet":
        """Dead letters nobody has dealt with."""
        return self.filter(state=RunState.DLQ, resolved_at=None)

    def unsent(self, before: datetime) -> "TaskRunQuerySet":
        """Released for work, but no broker has confirmed its message."""
        return self.filter(state=RunState.SCHEDULED, dispatched_at=None, available_at__lte=before)

    def unclaimed(self, before: datetime) -> "TaskRunQuerySet":
        """Its message was accepted long ago and no worker has come for it."""
        return self.filter(state=RunState.SCHEDULED, dispatched_at__lte=before)

    def retry_due(self, now: datetime) -> "TaskRunQuerySet":
        return self.filter(state=RunState.RETRY, available_at__lte=now)

    def expired(self, now: datetime) -> "TaskRunQuerySet":
        """Held by a worker that has not renewed its lease."""
        return self.filter(state__in=RUN_HELD, lease_until__lte=now)


class TaskRun(models.Model):
    id = models.UUIDField(primary_key=True, editable=False)
    occurrence = models.ForeignKey(Occurrence, on_delete=models.CASCADE, related_name="runs", db_index=False)
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="runs")
    position = models.PositiveIntegerField()
    state = models.CharField(max_length=12, choices=RunState, default=RunState.SCHEDULED)
    reason = models.CharField(max_length=200, blank=True, default="")
    policy = models.JSONField(default=dict, help_text="Effective configuration of this step.")
    attempts_made = models.PositiveIntegerField(default=0)
    snoozes = models.PositiveIntegerField(default=0, help_text="Attempts that asked to come later.")
    available_at = models.DateTimeField(null=True, help_text="May start from then on; null: waits its turn.")
    dispatched_at = models.DateTimeField(null=True, help_text="The broker accepted its message.")
    claim_token = models.UUIDField(null=True, help_text="Fences off a worker that lost its claim.")
    claimed_by = models.CharField(max_length=200, blank=True, default="")
    lease_until = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True, default="")
    fingerprint = models.CharField(max_length=16, blank=True, default="", help_text="Same error, same text.")
    progress = models.JSONField(null=True, help_text="What its function last said with ctx.heartbeat().")
    resolved_at = models.DateTimeField(null=True, help_text="A dead letter somebody has dealt with.")
    resolution = models.CharField(max_length=12, choices=Resolution, blank=True, default="")

    objects = TaskRunQuerySet.as_manager()

    class Meta:
        ordering = ["occurrence", "position"]
        verbose_name = "run"
        permissions = [("resolve_taskrun", "Can replay and purge dead letters")]
        indexes = [
            # Roll-up and the occurrence page.
            models.Index(fields=["occurrence", "position"], name="run_of_occurrence"),
            # Resend: `state = scheduled AND dispatched_at IS NULL AND available_at <= t`.
            models.Index(
                fields=["available_at"],
                condition=Q(state="scheduled", dispatched_at__isnull=True),
                name="run_unsent",
            ),
            # Lost messages: `state = scheduled AND dispatched_at <= t`.
            models.Index(
                fields=["dispatched_at"],
                condition=Q(state="scheduled", dispatched_at__isnull=False),
                name="run_unclaimed",
            ),
            # Due retries: `state = retry AND available_at <= now`.
            models.Index(fields=["available_at"], condition=Q(state="retry"), name="run_retry_due"),
            # Reaper: `state IN held AND lease_until <= now`.
            models.Index(fields=["lease_until"], condition=Q(state__in=RUN_HELD), name="run_expired"),
            # Dead letters, newest first, and by error.
            models.Index(
                fields=["-finished_at"], condition=Q(state="dlq", resolved_at__isnull=True), name="run_dead"
            ),
            models.Index(
                fields=["fingerprint", "-finished_at"],
                condition=Q(state="dlq", resolved_at__isnull=True),
                name="run_dead_by_error",
            ),
        ]
        constraints = [
            Rules(
                name="run_is_possible",
                rules={
                    "run_state_is_known": Q(state__in=RunState.values),
                    "run_finished_iff_final": Q(state__in=RUN_FINAL, finished_at__isnull=False)
                    | (~Q(state__in=RUN_FINAL) & Q(finished_at__isnull=True)),
                    "run_claimed_iff_held": Q(
                        state__in=RUN_HELD, claim_token__isnull=False, lease_until__isnull=False
                    )
                    | (~Q(state__in=RUN_HELD) & Q(claim_token__isnull=True, lease_until__isnull=True)),
                    "run_resolved_only_when_dead": Q(resolved_at__isnull=True, resolution="")
                    | (Q(state="dlq", resolved_at__isnull=False) & ~Q(resolution="")),
                },
            ),
        ]

    def __str__(self) -> str:
        return self.shown_id

    @property
    def shown_id(self) -> str:
        return shown("run", self.id)


class Attempt(models.Model):
    id = models.UUIDField(primary_key=True, editable=False)
    run = models.ForeignKey(TaskRun, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField(help_text="From 0.")
    state = models.CharField(max_length=10, choices=AttemptState, default=AttemptState.RUNNING)
    worker = models.CharField(max_length=200, blank=True, default="")
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True, help_text="Evidence: the lease it held when it was lost.")
    heartbeat_at = models.DateTimeField(null=True, help_text="Evidence: its last sign of life.")
    error_type = models.CharField(max_length=200, blank=True, default="")
    error = models.TextField(blank=True, default="")
    traceback = models.TextField(blank=True, default="")
    log = models.TextField(blank=True, default="", help_text="The last lines its function logged.")

    class Meta:
        ordering = ["run", "number"]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="one_attempt_per_number"),
            Rules(
                name="attempt_is_possible",
                rules={
                    "attempt_state_is_known": Q(state__in=AttemptState.values),
                    "attempt_finished_iff_final": Q(state__in=ATTEMPT_FINAL, finished_at__isnull=False)
                    | Q(state="running", finished_at__isnull=True),
                },
            ),
        ]

    def __str__(self) -> str:
        return self.shown_id

    @property
    def shown_id(self) -> str:
        return shown("attempt", self.id)
