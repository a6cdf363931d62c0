"""Read what workers do and what waits in queues: all from rows, in a fixed number of queries.

A worker is known by its presence row, by the runs it holds, and by those it held recently. Only the broker
knows how many messages a queue holds; it is asked in a thread, and the page does not wait for it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from threading import Thread

from django.db.models import Count, Min
from django.db.models.fields.json import KT

from punctual.execution.broker.queues import backlog
from punctual.execution.models import Process
from punctual.execution.supervision.presence import SILENT_AFTER
from punctual.jobs.config.cascade import Config
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import RUN_HELD

MAX_HELD, MAX_SEEN, MAX_WAITING = 500, 1000, 10_000  # rows read
RECENT = timedelta(hours=1)
MAX_NAMED = 3  # runs listed per worker
BROKER_PATIENCE = 0.25  # seconds
DEFAULT_QUEUE = Config().queue


class Duty(Enum):
    WORKING, IDLE, SILENT, STOPPED = "working", "idle", "silent", "stopped"


def duty(lease_until: datetime | None, present_at: datetime | None, now: datetime) -> Duty:
    """Judge a worker by its leases if it holds any, otherwise by its presence: only it renews both."""
    if lease_until is not None:
        return Duty.WORKING if lease_until > now else Duty.SILENT
    if present_at is None:
        return Duty.STOPPED
    return Duty.IDLE if now - present_at <= SILENT_AFTER else Duty.SILENT


@dataclass(frozen=True)
class Worker:
    """A worker with the runs it holds.

    `name` is without the process id. `seen_at` is its last sign of life of any kind, `present_at` the last
    renewal of its presence row; None after it signed off.
    """

    name: str
    runs: Sequence[TaskRun]
    seen_at: datetime | None
    lease_until: datetime | None
    present_at: datetime | None = None

    @property
    def named(self) -> Sequence[TaskRun]:
        return self.runs[:MAX_NAMED]

    @property
    def more(self) -> int:
        return len(self.runs) - len(self.named)

    def duty(self, now: datetime) -> Duty:
        return duty(self.lease_until, self.present_at, now)


@dataclass(frozen=True)
class Queue:
    """`waiting` and `age` are of runs sent and not claimed; `length` is what the broker reports."""

    name: str
    waiting: int
    age: timedelta | None
    length: int | None = None

    @property
    def waiting_text(self) -> str:
        return f"{self.waiting:,}" if self.waiting < MAX_WAITING else f"{MAX_WAITING:,}+"


@dataclass(frozen=True)
class Unsent:
    count: int
    age: timedelta | None


def workers(now: datetime) -> list[Worker]:
    """Return workers: those with most runs first, then those seen last."""
    runs, seen, present = defaultdict(list), recent_claims(now), recent_presence(now)
    for run in _held_runs():
        runs[worker_name(run.claimed_by)].append(run)
    rows = [
        _worker(name, runs.get(name, []), seen.get(name), present.get(name))
        for name in {*runs, *seen, *present}
    ]
    never = datetime.min.replace(tzinfo=now.tzinfo)
    rows.sort(key=lambda worker: (len(worker.runs), worker.seen_at or never, worker.name), reverse=True)
    return rows


def _worker(name: str, runs: Sequence[TaskRun], seen: datetime | None, present: datetime | None) -> Worker:
    signs = [at for run in runs for at in (run.heartbeat_at, run.started_at)]
    last = max((at for at in (*signs, seen, present) if at), default=None)
    leases = [run.lease_until for run in runs if run.lease_until]
    return Worker(name, runs, last, max(leases, default=None), present)


def recent_presence(now: datetime) -> dict[str, datetime]:
    """Return when each worker last renewed its presence, unless it signed off."""
    rows = Process.objects.workers().filter(seen_at__gte=now - RECENT).order_by("-seen_at")
    return dict(rows.values_list("name", "seen_at")[:MAX_SEEN])


def worker_name(claimed_by: str) -> str:
    """Return `celery@host` for `celery@host/4711`: a worker is all its processes."""
    return claimed_by.rpartition("/")[0] or claimed_by


def recent_claims(now: datetime) -> dict[str, datetime]:
    """Return when each worker last worked on one of the newest runs."""
    due = {"occurrence__scheduled_for__gte": now - RECENT, "occurrence__scheduled_for__lte": now}
    newest = TaskRun.objects.filter(**due).exclude(claimed_by="").order_by("-occurrence__scheduled_for")
    columns = ("claimed_by", "heartbeat_at", "started_at", "finished_at")
    last_seen: dict[str, datetime] = {}
    for process, *signs in newest.values_list(*columns)[:MAX_SEEN]:
        last = max((at for at in signs if at), default=None)
        if last is not None:
            name = worker_name(process)
            last_seen[name] = max(last, last_seen.get(name, last))
    return last_seen


def queues(now: datetime) -> list[Queue]:
    """Return queues, the longest wait first; the default queue is listed even when it is empty."""
    oldest = TaskRun.objects.unclaimed(before=now).order_by("dispatched_at").values("pk")[:MAX_WAITING]
    waiting = TaskRun.objects.filter(pk__in=oldest).order_by().values_list(KT("policy__queue"))
    rows = {
        name or DEFAULT_QUEUE: (count, max(now - sent, timedelta()))
        for name, count, sent in waiting.annotate(Count("pk"), Min("dispatched_at"))
    }
    queues = [Queue(name, *rows.get(name, (0, None))) for name in sorted({DEFAULT_QUEUE, *rows})]
    return sorted(queues, key=lambda queue: queue.age or timedelta(), reverse=True)


def measure_queues(waiting: Sequence[Queue], seconds: float = BROKER_PATIENCE) -> Callable[[], list[Queue]]:
    """Ask the broker for queue lengths in a thread and return a function that collects the answers.

    Collecting waits for `seconds` at most: a page does not wait for a broker that is down.
    """
    lengths: dict[str, int] = {}
    names = [queue.name for queue in waiting]
    thread = Thread(target=_read_lengths, args=(names, lengths), daemon=True)
    thread.start()

    def collect() -> list[Queue]:
        thread.join(seconds)
        return [replace(queue, length=lengths.get(queue.name)) for queue in waiting]

    return collect


def _read_lengths(names: Iterable[str], lengths: dict[str, int]) -> None:
    for name in names:
        length = backlog(name)
        if length is not None:
            lengths[name] = length


def unsent(now: datetime) -> Unsent:
    """Count runs released for work whose message the broker has not accepted."""
    rows = TaskRun.objects.unsent(before=now).order_by("available_at").values("available_at")[:MAX_WAITING]
    totals = rows.aggregate(count=Count("available_at"), oldest=Min("available_at"))
    oldest = totals["oldest"]
    return Unsent(totals["count"], None if oldest is None else max(now - oldest, timedelta()))


def _held_runs() -> Iterable[TaskRun]:
    rows = TaskRun.objects.filter(state__in=RUN_HELD).select_related("task__job")
    return rows.defer("policy", "error", "progress").order_by("lease_until")[:MAX_HELD]
