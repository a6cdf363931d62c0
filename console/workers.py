"""Now → who ticks, who works on what, and what waits for them: all from rows, in a fixed number of queries.

A worker is known by its row while it is on duty, by the runs it holds, and by those it held lately. How
many messages a queue holds only the broker knows; it is asked once, and not waited for.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from threading import Thread

from django.db.models import Count, Min
from django.db.models.fields.json import KT

from execution.models import Worker as OnDuty
from execution.presence import SILENT_AFTER
from execution.queues import backlog
from jobs.config import Config
from occurrences.models import TaskRun
from occurrences.states import RUN_HELD

MOST_HELD, MOST_SEEN, MOST_WAITING = 500, 1000, 10_000  # rows read
LATELY = timedelta(hours=1)
NAMED = 3  # runs shown of one worker
ASKED_FOR = 0.25  # seconds
USUAL_QUEUE = Config().queue


class Duty(Enum):
    WORKING, IDLE, SILENT, STOPPED = "working", "idle", "silent", "stopped"


def duty(lease_until: datetime | None, present_at: datetime | None, now: datetime) -> Duty:
    """What it holds tells first: a lease runs out, or is renewed, by the worker's own doing."""
    if lease_until is not None:
        return Duty.WORKING if lease_until > now else Duty.SILENT
    if present_at is None:
        return Duty.STOPPED
    return Duty.IDLE if now - present_at <= SILENT_AFTER else Duty.SILENT


@dataclass(frozen=True)
class Worker:
    """`name` without the number of its process; `seen_at` is its last sign of life, of whatever kind;
    `present_at` the last that it gave for that purpose, None once it has signed off."""

    name: str
    runs: Sequence[TaskRun]
    seen_at: datetime | None
    lease_until: datetime | None
    present_at: datetime | None = None

    @property
    def named(self) -> Sequence[TaskRun]:
        return self.runs[:NAMED]

    @property
    def more(self) -> int:
        return len(self.runs) - len(self.named)

    def duty(self, now: datetime) -> Duty:
        return duty(self.lease_until, self.present_at, now)


@dataclass(frozen=True)
class Queue:
    """`waiting` and `age` tell of what was sent and not taken; `length` is the broker's word, if it came."""

    name: str
    waiting: int
    age: timedelta | None
    length: int | None = None

    @property
    def shown(self) -> str:
        return f"{self.waiting:,}" if self.waiting < MOST_WAITING else f"{MOST_WAITING:,}+"


@dataclass(frozen=True)
class Unsent:
    count: int
    age: timedelta | None


def workers(now: datetime) -> list[Worker]:
    """Those that hold most first, then those that were seen last."""
    held, seen, present = defaultdict(list), seen_lately(now), present_lately(now)
    for run in _held():
        held[base(run.claimed_by)].append(run)
    found = [
        _worker(name, held.get(name, []), seen.get(name), present.get(name))
        for name in {*held, *seen, *present}
    ]
    never = datetime.min.replace(tzinfo=now.tzinfo)
    return sorted(found, key=lambda one: (len(one.runs), one.seen_at or never, one.name), reverse=True)


def _worker(name: str, runs: Sequence[TaskRun], seen: datetime | None, present: datetime | None) -> Worker:
    signs = [at for run in runs for at in (run.heartbeat_at, run.started_at)]
    last = max((at for at in (*signs, seen, present) if at), default=None)
    leases = [run.lease_until for run in runs if run.lease_until]
    return Worker(name, runs, last, max(leases, default=None), present)


def present_lately(now: datetime) -> dict[str, datetime]:
    """Whoever is on duty, or was and did not sign off."""
    rows = OnDuty.objects.filter(seen_at__gte=now - LATELY).order_by("-seen_at")
    return dict(rows.values_list("name", "seen_at")[:MOST_SEEN])


def base(claimed_by: str) -> str:
    """`celery@host/4711` → `celery@host`: a worker is all its processes."""
    return claimed_by.rpartition("/")[0] or claimed_by


def seen_lately(now: datetime) -> dict[str, datetime]:
    """Whoever held one of the newest runs, and when last."""
    due = {"occurrence__scheduled_for__gte": now - LATELY, "occurrence__scheduled_for__lte": now}
    newest = TaskRun.objects.filter(**due).exclude(claimed_by="").order_by("-occurrence__scheduled_for")
    found: dict[str, datetime] = {}
    for name, *signs in newest.values_list("claimed_by", "heartbeat_at", "started_at", "finished_at")[
        :MOST_SEEN
    ]:
        last = max((at for at in signs if at), default=None)
        if last is not None:
            found[base(name)] = max(last, found.get(base(name), last))
    return found


def queues(now: datetime) -> list[Queue]:
    """The longest wait first; the usual queue is there even when nothing waits in it."""
    oldest = TaskRun.objects.unclaimed(before=now).order_by("dispatched_at").values("pk")[:MOST_WAITING]
    waiting = TaskRun.objects.filter(pk__in=oldest).order_by().values_list(KT("policy__queue"))
    rows = {
        name or USUAL_QUEUE: (count, max(now - sent, timedelta()))
        for name, count, sent in waiting.annotate(Count("pk"), Min("dispatched_at"))
    }
    found = [Queue(name, *rows.get(name, (0, None))) for name in sorted({USUAL_QUEUE, *rows})]
    return sorted(found, key=lambda one: one.age or timedelta(), reverse=True)


def asked(waiting: Sequence[Queue], seconds: float = ASKED_FOR) -> Callable[[], list[Queue]]:
    """Asks the broker while the page reads on. Called, it gives them with what was answered by then, or
    shortly after: a page does not wait for a broker that is away."""
    lengths: dict[str, int] = {}
    asking = Thread(target=_ask, args=([one.name for one in waiting], lengths), daemon=True)
    asking.start()

    def answered() -> list[Queue]:
        asking.join(seconds)
        return [replace(one, length=lengths.get(one.name)) for one in waiting]

    return answered


def _ask(names: Iterable[str], found: dict[str, int]) -> None:
    for name in names:
        answered = backlog(name)
        if answered is not None:
            found[name] = answered


def unsent(now: datetime) -> Unsent:
    """Released for work, and no broker has taken the message."""
    rows = TaskRun.objects.unsent(before=now).order_by("available_at").values("available_at")[:MOST_WAITING]
    found = rows.aggregate(count=Count("available_at"), oldest=Min("available_at"))
    oldest = found["oldest"]
    return Unsent(found["count"], None if oldest is None else max(now - oldest, timedelta()))


def _held() -> Iterable[TaskRun]:
    rows = TaskRun.objects.filter(state__in=RUN_HELD).select_related("task__job")
    return rows.defer("policy", "error", "progress").order_by("lease_until")[:MOST_HELD]
