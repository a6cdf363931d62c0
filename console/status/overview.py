"""Read everything the overview shows, in a fixed number of queries."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Min
from django.utils.safestring import SafeString

from punctual.console.kit.display import format_age
from punctual.console.status import activity
from punctual.console.status.workers import Duty, duty, recent_presence, worker_name
from punctual.execution.models import Process
from punctual.jobs.models import Job
from punctual.occurrences.models import Cursor, Occurrence, TaskRun
from punctual.occurrences.states import RUN_HELD, OccurrenceState, RunState

MAX_ROWS = 8
MAX_PROCESSES = 200
FAILED = (OccurrenceState.FAILED, OccurrenceState.FAILED_STALE, OccurrenceState.COMPLETED_WITH_ERRORS)
RECENT = timedelta(hours=24)
SILENT_AFTER = timedelta(seconds=10)
LONG_WAIT = timedelta(seconds=30)


@dataclass(frozen=True)
class FailingJob:
    job: Job
    failures: int
    last: datetime


@dataclass(frozen=True)
class BeatStatus:
    """A beat and how long ago it last ticked, by the clock of the database."""

    name: str
    age: timedelta
    lag: timedelta

    @property
    def silent(self) -> bool:
        return self.age > SILENT_AFTER


@dataclass(frozen=True)
class WorkerSummary:
    """A worker, how many runs it holds and until when, and when it last reported its presence."""

    name: str
    runs: int
    lease_until: datetime | None
    present_at: datetime | None

    def duty(self, now: datetime) -> Duty:
        return duty(self.lease_until, self.present_at, now)


@dataclass(frozen=True)
class Overview:
    now: datetime
    jobs: bool
    starts: SafeString
    beats: list[BeatStatus]
    workers: list[WorkerSummary]
    queue_age: timedelta | None
    failing: list[FailingJob]
    unplannable: list[Cursor]
    running: list[Occurrence]
    upcoming: list[Occurrence]

    @property
    def new(self) -> bool:
        """Return whether there is no job yet."""
        return not self.jobs

    @property
    def alarm(self) -> str:
        """Warn when jobs exist and no beat ticks: nothing starts, and no other page says so."""
        if not self.jobs or any(not beat.silent for beat in self.beats):
            return ""
        if not self.beats:
            return "No beat has ticked: nothing will start."
        return f"The last beat fell silent {format_age(self.beats[0].age)} ago: nothing will start."

    @property
    def queue_waits_long(self) -> bool:
        return self.queue_age is not None and self.queue_age > LONG_WAIT


def overview(now: datetime) -> Overview:
    return Overview(
        now=now,
        jobs=Job.objects.exists(),
        starts=starts_chart(now),
        beats=beats(now),
        workers=worker_summaries(now),
        queue_age=queue_age(now),
        failing=failing_jobs(now),
        unplannable=unplannable_jobs(),
        running=active_occurrences(),
        upcoming=list(_light(_pending()).order_by("run_at")[:MAX_ROWS]),
    )


def starts_chart(now: datetime) -> SafeString:
    counts = activity.add_counts(activity.recorded_starts(now), activity.projected_starts(now))
    return activity.draw_chart(counts, now)


def beats(now: datetime) -> list[BeatStatus]:
    rows = Process.objects.beats().order_by("-seen_at")[:MAX_ROWS]
    return [BeatStatus(row.name, max(now - row.seen_at, timedelta()), row.tick_duration) for row in rows]


def worker_summaries(now: datetime) -> list[WorkerSummary]:
    """Return workers: those with most runs first, then those seen last."""
    claims = TaskRun.objects.filter(state__in=RUN_HELD).order_by().values_list("claimed_by")
    processes = claims.annotate(count=Count("pk"), lease=Max("lease_until")).order_by("-count")
    runs: Counter[str] = Counter()
    leases: dict[str, datetime] = {}
    for process, count, lease in processes[:MAX_PROCESSES]:
        name = worker_name(process)
        runs[name] += count
        leases[name] = max(lease, leases.get(name, lease))
    present = recent_presence(now)
    workers = [
        WorkerSummary(name, runs[name], leases.get(name), present.get(name)) for name in {*runs, *present}
    ]
    never = datetime.min.replace(tzinfo=now.tzinfo)
    workers.sort(key=lambda worker: (worker.runs, worker.present_at or never, worker.name), reverse=True)
    return workers[:MAX_ROWS]


def queue_age(now: datetime) -> timedelta | None:
    """Return how long the oldest message has waited for a worker; None if none waits."""
    waiting = TaskRun.objects.filter(state=RunState.SCHEDULED, dispatched_at__lte=now)
    oldest = waiting.aggregate(oldest=Min("dispatched_at"))["oldest"]
    return None if oldest is None else max(now - oldest, timedelta())


def failing_jobs(now: datetime) -> list[FailingJob]:
    """Return the jobs that failed most often in the last day."""
    failed = Occurrence.objects.filter(state__in=FAILED, scheduled_for__gte=now - RECENT).order_by()
    by_job = failed.values_list("job").annotate(count=Count("pk"), last=Max("scheduled_for"))
    worst = list(by_job.order_by("-count", "-last")[:MAX_ROWS])
    jobs = Job.objects.in_bulk([job for job, _, _ in worst])
    return [FailingJob(jobs[job], count, last) for job, count, last in worst]


def active_occurrences() -> list[Occurrence]:
    """Return running occurrences, the oldest first, then dispatched ones.

    The order begins with the state, as its index does: by time alone PostgreSQL would scan all of history.
    """
    return list(_light(Occurrence.objects.active()).order_by("-state", "scheduled_for")[:MAX_ROWS])


def unplannable_jobs() -> list[Cursor]:
    """Return jobs that cannot be planned: they do not start until their definition is corrected."""
    rows = Cursor.objects.filter(job__removed_at=None).exclude(problem="").select_related("job")
    return sorted(rows.order_by()[:MAX_ROWS], key=lambda cursor: cursor.job.name)


def _pending() -> Any:
    return Occurrence.objects.filter(state=OccurrenceState.PENDING)


def _light(rows: Any) -> Any:
    return rows.select_related("job").defer("config", "args", "report", "overrides")
