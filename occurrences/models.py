"""The tables of the ledger: Occurrence (job × instant), TaskRun (task × occurrence), Attempt (one try).

Every instant is aware UTC. The database refuses impossible rows: one active occurrence per exclusive job,
finished exactly when final, a claim exactly while a worker holds the run.
"""

from django.db import models
from django.db.models import Q

from punctual.jobs.check_constraints import Rules
from punctual.jobs.ids import format_id
from punctual.jobs.models import Job, Task
from punctual.occurrences.querysets import CursorQuerySet, OccurrenceQuerySet, TaskRunQuerySet
from punctual.occurrences.row_rules import ATTEMPT_RULES, OCCURRENCE_RULES, RUN_RULES
from punctual.occurrences.states import (
    CATCH_UP_CAUSES,
    LIVE_CAUSES,
    OCCURRENCE_ACTIVE,
    RUN_HELD,
    AttemptState,
    OccurrenceState,
    RunState,
)


class Cause(models.TextChoices):
    """What created an occurrence."""

    SCHEDULE = "schedule", "schedule"
    RECOVERY = "recovery", "recovery"
    MANUAL = "manual", "manual"
    REPLAY = "replay", "replay"
    BACKFILL = "backfill", "backfill"


class Cursor(models.Model):
    """How far a job is planned, and the per-job mutex of planning, firing and admission.

    A database trigger on the jobs table resets `planned_until` and `plan_at`, so that the next tick plans a
    job anew after any edit, raw SQL included.
    """

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="cursor")
    settled_until = models.DateTimeField(
        help_text="Never moves back; no occurrence is created at or before it."
    )
    planned_until = models.DateTimeField(
        null=True, help_text="How far occurrences are planned; null after an edit."
    )
    plan_at = models.DateTimeField(null=True, help_text="When to plan again; null: never.")
    catch_up_at = models.DateTimeField(
        null=True,
        help_text="When the next recovered, replayed or backfilled one may start; null: none is left.",
    )
    problem = models.TextField(blank=True, default="", help_text="Why the job cannot be planned.")
    starts = models.PositiveIntegerField(
        default=0, help_text="Number of starts so far; the schedule option `max` bounds it."
    )

    objects = CursorQuerySet.as_manager()

    class Meta:
        indexes = [
            # Planning: `plan_at <= now ORDER BY plan_at`.
            models.Index(fields=["plan_at"], condition=Q(plan_at__isnull=False), name="cursor_due"),
            # Catch-up: `catch_up_at <= now ORDER BY catch_up_at`.
            models.Index(
                fields=["catch_up_at"], condition=Q(catch_up_at__isnull=False), name="cursor_catch_up_due"
            ),
        ]

    def __str__(self) -> str:
        return f"cursor of {self.job_id}"


class Pool(models.Model):
    """How many occurrences may be active at once; the row is the mutex of its slots."""

    name = models.CharField(primary_key=True, max_length=100)
    size = models.PositiveIntegerField()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class IdempotencyKey(models.Model):
    """A second trigger with the same key, until it expires, returns the first one's occurrence (TSK-4)."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, db_index=False)
    key = models.CharField(max_length=200)
    # Not a foreign key: the key outlives the pruning of its occurrence.
    occurrence_id = models.UUIDField(help_text="The occurrence that the first trigger created.")
    request = models.CharField(
        max_length=64, help_text="SHA-256 of the arguments and settings of the trigger."
    )
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job", "key"], name="one_occurrence_per_idempotency_key_of_a_job"
            ),
        ]
        indexes = [
            # Pruning: `expires_at <= now ORDER BY expires_at`.
            models.Index(fields=["expires_at"], name="idempotency_key_expired"),
        ]

    def __str__(self) -> str:
        return self.key


class Occurrence(models.Model):
    id = models.UUIDField(primary_key=True, editable=False)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="occurrences", db_index=False)
    job_version = models.PositiveIntegerField()
    cause = models.CharField(max_length=10, choices=Cause, default=Cause.SCHEDULE)
    scheduled_for = models.DateTimeField(help_text="Nominal instant of the schedule.")
    run_at = models.DateTimeField(help_text="Start time after spread, stagger and jitter.")
    late_at = models.DateTimeField(
        null=True, help_text="Counts as late after; then the recovery policy decides."
    )
    state = models.CharField(max_length=24, choices=OccurrenceState, default=OccurrenceState.PENDING)
    reason = models.CharField(max_length=200, blank=True, default="")
    ending = models.CharField(
        max_length=24, blank=True, default="", help_text="How it will end, once its clean-up is over."
    )
    exclusive = models.BooleanField(help_text="No second occurrence of the job may be active.")
    pool = models.CharField(max_length=100, default="default", help_text="Pool whose slot it takes.")
    priority = models.IntegerField(default=0, help_text="Higher starts first when slots are scarce.")
    holds_slot = models.BooleanField(default=False, help_text="Takes a slot of its pool.")
    slot_wanted_at = models.DateTimeField(
        null=True, help_text="Since when it waits for a slot to go on; it had given its own back."
    )
    expires_at = models.DateTimeField(
        null=True, help_text="Must not start after; end of the schedule's window."
    )
    config = models.JSONField(default=dict, help_text="Effective configuration.")
    overrides = models.JSONField(default=dict, help_text="Configuration overrides of this occurrence.")
    args = models.JSONField(default=dict, help_text="Arguments of a manual run.")
    metadata = models.JSONField(default=dict, help_text="The job's, when it was planned; ctx.metadata.")
    parent = models.ForeignKey(
        "self",
        null=True,
        on_delete=models.SET_NULL,
        related_name="children",
        help_text="Occurrence that it repeats.",
    )
    covers = models.JSONField(null=True, help_text="Instants that a compressed run covers.")
    spans_until = models.DateTimeField(null=True, help_text="Last instant of a range row.")
    instants = models.PositiveIntegerField(default=1, help_text="Number of instants of a range row.")
    only_tasks = models.JSONField(null=True, help_text="Ids of the tasks to run; null: all.")
    requested_by = models.CharField(
        max_length=200, blank=True, default="", help_text="Operator who requested it."
    )
    request_reason = models.CharField(
        max_length=500, blank=True, default="", help_text="Why the operator requested it."
    )
    report = models.JSONField(null=True, help_text="Summary of the outcome.")
    created_at = models.DateTimeField()
    fired_at = models.DateTimeField(null=True, help_text="When its runs were created.")
    started_at = models.DateTimeField(null=True, help_text="When a worker claimed its first run.")
    execution_timeout = models.DurationField()
    deadline_at = models.DateTimeField(null=True, help_text="started_at + execution_timeout")
    finished_at = models.DateTimeField(null=True)
    finalized_at = models.DateTimeField(null=True, help_text="When its completion hooks were called.")
    settle_requested_at = models.DateTimeField(
        null=True, help_text="When a worker was last requested to settle it."
    )

    objects = OccurrenceQuerySet.as_manager()

    class Meta:
        ordering = ["-scheduled_for", "-created_at"]  # a replay above its original
        indexes = [
            # Firing: `state = pending AND cause IN live AND run_at <= now ORDER BY run_at`.
            models.Index(
                fields=["run_at"], condition=Q(state="pending", cause__in=LIVE_CAUSES), name="occurrence_due"
            ),
            # Catch-up: the first pending occurrence of a job that is recovered, replayed or backfilled.
            models.Index(
                fields=["job", "run_at"],
                condition=Q(state="pending", cause__in=CATCH_UP_CAUSES),
                name="occurrence_to_catch_up",
            ),
            # Admission: the next in line of a pool; how many of its slots are taken.
            models.Index(
                fields=["pool", "-priority", "run_at"], condition=Q(state="queued"), name="occurrence_in_line"
            ),
            models.Index(fields=["pool"], condition=Q(holds_slot=True), name="occurrence_in_pool"),
            # Admission: active occurrences that wait for a slot to go on, ahead of queued ones.
            models.Index(
                fields=["pool", "-priority", "run_at"],
                condition=Q(slot_wanted_at__isnull=False),
                name="occurrence_wants_slot",
            ),
            # Admission: the oldest waiting occurrence of a job.
            models.Index(fields=["job", "run_at"], condition=Q(state="queued"), name="occurrence_waiting"),
            # Sweep of active occurrences: `state IN active AND deadline_at <= now`.
            models.Index(
                fields=["deadline_at"],
                condition=Q(state__in=OCCURRENCE_ACTIVE),
                name="occurrence_under_way",
            ),
            # Hooks to call: `finished_at IS NOT NULL AND finalized_at IS NULL`.
            models.Index(
                fields=["finished_at"],
                condition=Q(finished_at__isnull=False, finalized_at__isnull=True),
                name="occurrence_unfinalized",
            ),
            # A job's history, newest first.
            models.Index(fields=["job", "-scheduled_for"], name="occurrence_history"),
            # The list of all occurrences, newest first, and by state.
            models.Index(fields=["-scheduled_for"], name="occurrence_newest"),
            models.Index(fields=["state", "-scheduled_for"], name="occurrence_by_state"),
            # Starts per minute: `started_at >= t`.
            models.Index(
                fields=["started_at"], condition=Q(started_at__isnull=False), name="occurrence_started"
            ),
            # The same list by cause; nearly all rows have the cause `schedule`, which needs no index.
            models.Index(
                fields=["cause", "-scheduled_for"], condition=~Q(cause="schedule"), name="occurrence_by_cause"
            ),
            # Range rows that touch a span of the past.
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
            Rules(name="occurrence_is_possible", rules=OCCURRENCE_RULES),
        ]
        permissions = [
            ("cancel_occurrence", "Can cancel an occurrence"),
            ("replay_occurrence", "Can replay an occurrence"),
        ]

    def __str__(self) -> str:
        return f"{self.display_id} {self.scheduled_for:%Y-%m-%d %H:%M:%S}"

    @property
    def display_id(self) -> str:
        return format_id("occ", self.id)


class Resolution(models.TextChoices):
    """What an operator did with a dead letter."""

    REPLAYED = "replayed", "replayed"
    PURGED = "purged", "purged"


class TaskRun(models.Model):
    id = models.UUIDField(primary_key=True, editable=False)
    occurrence = models.ForeignKey(Occurrence, on_delete=models.CASCADE, related_name="runs", db_index=False)
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="runs")
    function = models.CharField(max_length=500, help_text="Name of the function, as its version has it.")
    position = models.PositiveIntegerField()
    state = models.CharField(max_length=12, choices=RunState, default=RunState.SCHEDULED)
    reason = models.CharField(max_length=200, blank=True, default="")
    policy = models.JSONField(default=dict, help_text="Effective configuration of this run.")
    attempts_made = models.PositiveIntegerField(default=0)
    snoozes = models.PositiveIntegerField(
        default=0, help_text="Attempts that do not count: snoozed or handed back."
    )
    available_at = models.DateTimeField(null=True, help_text="Not before; null: waits for an earlier task.")
    dispatched_at = models.DateTimeField(null=True, help_text="When the broker accepted its message.")
    dispatch_timeout = models.DurationField(
        null=True, help_text="How long it may wait for a worker; null: any time."
    )
    parked_at = models.DateTimeField(
        null=True, help_text="Since when it cannot be claimed: its occurrence has no slot."
    )
    claim_token = models.UUIDField(
        null=True, help_text="Fencing token: a worker that lost its claim cannot write."
    )
    claimed_by = models.CharField(max_length=200, blank=True, default="")
    lease_until = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True, default="")
    fingerprint = models.CharField(
        max_length=16, blank=True, default="", help_text="Groups runs with the same error."
    )
    progress = models.JSONField(null=True, help_text="Last value given to ctx.heartbeat().")
    resolved_at = models.DateTimeField(
        null=True, help_text="When an operator replayed or purged the dead letter."
    )
    resolution = models.CharField(max_length=12, choices=Resolution, blank=True, default="")

    objects = TaskRunQuerySet.as_manager()

    class Meta:
        ordering = ["occurrence", "position"]
        verbose_name = "run"
        permissions = [("resolve_taskrun", "Can replay and purge dead letters")]
        indexes = [
            # Roll-up and the occurrence page.
            models.Index(fields=["occurrence", "position"], name="run_of_occurrence"),
            # Unsent messages: `state = scheduled AND dispatched_at IS NULL AND available_at <= t`.
            models.Index(
                fields=["available_at"],
                condition=Q(state="scheduled", dispatched_at__isnull=True, parked_at__isnull=True),
                name="run_unsent",
            ),
            # Lost messages: `state = scheduled AND dispatched_at <= t`.
            models.Index(
                fields=["dispatched_at"],
                condition=Q(state="scheduled", dispatched_at__isnull=False, parked_at__isnull=True),
                name="run_unclaimed",
            ),
            # Runs past their dispatch_timeout: `state = scheduled AND dispatch_timeout IS NOT NULL`.
            models.Index(
                fields=["available_at"],
                condition=Q(state="scheduled", dispatch_timeout__isnull=False),
                name="run_claim_due",
            ),
            # Due retries: `state = retry AND available_at <= now`.
            models.Index(
                fields=["available_at"],
                condition=Q(state="retry", parked_at__isnull=True),
                name="run_retry_due",
            ),
            # Runs of occurrences without a slot: `parked_at IS NOT NULL`.
            models.Index(fields=["occurrence"], condition=Q(parked_at__isnull=False), name="run_parked"),
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
            Rules(name="run_is_possible", rules=RUN_RULES),
        ]

    def __str__(self) -> str:
        return self.display_id

    @property
    def display_id(self) -> str:
        return format_id("run", self.id)


class Attempt(models.Model):
    id = models.UUIDField(primary_key=True, editable=False)
    run = models.ForeignKey(TaskRun, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField(help_text="Starts at 0.")
    state = models.CharField(max_length=10, choices=AttemptState, default=AttemptState.RUNNING)
    worker = models.CharField(max_length=200, blank=True, default="")
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True, help_text="Lease at the time the attempt was lost.")
    heartbeat_at = models.DateTimeField(null=True, help_text="Last heartbeat before the attempt was lost.")
    error_type = models.CharField(max_length=200, blank=True, default="")
    error = models.TextField(blank=True, default="")
    traceback = models.TextField(blank=True, default="")
    log = models.TextField(blank=True, default="", help_text="Last lines that the task logged.")

    class Meta:
        ordering = ["run", "number"]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="one_attempt_per_number"),
            Rules(name="attempt_is_possible", rules=ATTEMPT_RULES),
        ]

    def __str__(self) -> str:
        return self.display_id

    @property
    def display_id(self) -> str:
        return format_id("attempt", self.id)
