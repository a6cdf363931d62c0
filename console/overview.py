"""Now → everything the overview shows, in a fixed number of queries."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Min
from django.utils.safestring import SafeString

from beat.models import Beat
from console import activity
from console.workers import Duty, base, duty, present_lately
from jobs.display import said_age
from jobs.models import Job
from occurrences.models import Cursor, Occurrence, TaskRun
from occurrences.states import RUN_HELD, OccurrenceState, RunState

SHOWN = 8
MOST_PROCESSES = 200
FAILED = (OccurrenceState.FAILED, OccurrenceState.FAILED_STALE, OccurrenceState.COMPLETED_WITH_ERRORS)
RECENT = timedelta(hours=24)
SILENT_AFTER = timedelta(seconds=10)
WAITS_LONG = timedelta(seconds=30)


@dataclass(frozen=True)
class Failing:
    job: Job
    failures: int
    last: datetime


@dataclass(frozen=True)
class Ticking:
    """A beat and how long ago it last ticked, in the database's time."""

    name: str
    age: timedelta
    lag: timedelta

    @property
    def silent(self) -> bool:
        return self.age > SILENT_AFTER


@dataclass(frozen=True)
class Hand:
    """A worker, how many runs it holds and until when, and when it last showed that it is on duty."""

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
    beats: list[Ticking]
    workers: list[Hand]
    queue_age: timedelta | None
    failing: list[Failing]
    broken: list[Cursor]
    running: list[Occurrence]
    upcoming: list[Occurrence]

    @property
    def new(self) -> bool:
        """Nobody has made a job yet."""
        return not self.jobs

    @property
    def alarm(self) -> str:
        """Without a beat nothing starts, and nothing else says so; without jobs nobody waits for one."""
        if not self.jobs or any(not beat.silent for beat in self.beats):
            return ""
        if not self.beats:
            return "No beat has ticked: nothing will start."
        return f"The last beat fell silent {said_age(self.beats[0].age)} ago: nothing will start."

    @property
    def queue_waits_long(self) -> bool:
        return self.queue_age is not None and self.queue_age > WAITS_LONG


def overview(now: datetime) -> Overview:
    return Overview(
        now=now,
        jobs=Job.objects.exists(),
        starts=activity.chart(activity.added(activity.read(now), activity.projected(now)), now),
        beats=beats(now),
        workers=workers(now),
        queue_age=queue_age(now),
        failing=failing(now),
        broken=broken(),
        running=under_way(),
        upcoming=list(_light(_pending()).order_by("run_at")[:SHOWN]),
    )


def beats(now: datetime) -> list[Ticking]:
    rows = Beat.objects.order_by("-ticked_at")[:SHOWN]
    return [Ticking(row.name, max(now - row.ticked_at, timedelta()), row.lag) for row in rows]


def workers(now: datetime) -> list[Hand]:
    """Those that hold most first, then those that are on duty, then those that should be."""
    held = TaskRun.objects.filter(state__in=RUN_HELD).order_by().values_list("claimed_by")
    counted = held.annotate(found=Count("pk"), lease=Max("lease_until")).order_by("-found")
    runs: Counter[str] = Counter()
    leases: dict[str, datetime] = {}
    for name, found, lease in counted[:MOST_PROCESSES]:
        worker = base(name)
        runs[worker] += found
        leases[worker] = max(lease, leases.get(worker, lease))
    present = present_lately(now)
    hands = [Hand(name, runs[name], leases.get(name), present.get(name)) for name in {*runs, *present}]
    never = datetime.min.replace(tzinfo=now.tzinfo)
    ordered = sorted(hands, key=lambda hand: (hand.runs, hand.present_at or never, hand.name), reverse=True)
    return ordered[:SHOWN]


def queue_age(now: datetime) -> timedelta | None:
    """How long the oldest message has waited for a worker; None: none is waiting."""
    waiting = TaskRun.objects.filter(state=RunState.SCHEDULED, dispatched_at__lte=now)
    oldest = waiting.aggregate(oldest=Min("dispatched_at"))["oldest"]
    return None if oldest is None else max(now - oldest, timedelta())


def failing(now: datetime) -> list[Failing]:
    """The jobs that failed most often in the last day."""
    failed = Occurrence.objects.filter(state__in=FAILED, scheduled_for__gte=now - RECENT).order_by()
    counted = failed.values_list("job").annotate(found=Count("pk"), last=Max("scheduled_for"))
    worst = list(counted.order_by("-found", "-last")[:SHOWN])
    jobs = Job.objects.in_bulk([job for job, _, _ in worst])
    return [Failing(jobs[job], count, last) for job, count, last in worst]


def under_way() -> list[Occurrence]:
    """What runs, the oldest first, then what was sent. By state first, as its index is: by time alone
    PostgreSQL would walk all of history to find the few that are left of it."""
    return list(_light(Occurrence.objects.active()).order_by("-state", "scheduled_for")[:SHOWN])


def broken() -> list[Cursor]:
    """Jobs that cannot be planned: nothing of theirs will start until somebody mends them."""
    rows = Cursor.objects.filter(job__removed_at=None).exclude(problem="").select_related("job")
    return sorted(rows.order_by()[:SHOWN], key=lambda cursor: cursor.job.name)


def _pending() -> Any:
    return Occurrence.objects.filter(state=OccurrenceState.PENDING)


def _light(rows: Any) -> Any:
    return rows.select_related("job").defer("config", "args", "report", "overrides")
