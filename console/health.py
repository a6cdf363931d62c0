"""Database, broker, beats, workers → a verdict with one line per check.

A line names what failed and how, never where: no address, user or password. The log has the rest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Thread
from time import monotonic

from celery import current_app
from django.db import connections

from beat.models import Beat
from beat.tick import LONGEST_SLEEP
from jobs.clock import database_now
from jobs.events import Event, emit
from occurrences.models import Occurrence, TaskRun
from occurrences.states import RUN_HELD

PATIENCE = timedelta(seconds=30)  # a message may wait so long before anybody asks whether workers work
LATELY = timedelta(hours=1)
TIMEOUT = 2.0  # seconds a check may take; probes commonly give up after a few


@dataclass(frozen=True)
class Check:
    ok: bool
    detail: str


def database() -> Check:
    database_now()
    return Check(ok=True, detail="answers")


def broker() -> Check:
    with current_app.connection_for_write(connect_timeout=TIMEOUT) as connection:
        connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
    return Check(ok=True, detail="answers")


def tick(oldest: timedelta | None) -> Check:
    newest = Beat.objects.order_by("-ticked_at").first()
    if newest is None:
        return Check(ok=False, detail="no beat has ever ticked")
    return judged_tick(newest.ticked_at, database_now(), oldest or allowed_silence(newest.lag))


def allowed_silence(lag: timedelta) -> timedelta:
    """Two intervals: a beat sleeps so long at most, and a tick takes as long as the last one did."""
    return 2 * (LONGEST_SLEEP + lag)


def judged_tick(newest: datetime, now: datetime, oldest: timedelta) -> Check:
    age = (now - newest).total_seconds()
    bound = oldest.total_seconds()
    return Check(ok=age <= bound, detail=f"newest tick {age:.1f} s ago, at most {bound:.3g} s allowed")


def consumption() -> Check:
    """Workers may answer pings and take nothing: what counts is that messages find somebody."""
    now = database_now()
    waiting = TaskRun.objects.unclaimed(before=now).order_by("dispatched_at")
    sent = waiting.values_list("dispatched_at", flat=True).first()
    if sent is None:
        return Check(ok=True, detail="no message waits")
    return judged_consumption(now - sent, taken=anything_taken(since=sent, now=now))


def judged_consumption(waits: timedelta, *, taken: bool) -> Check:
    told = f"oldest message waits {waits.total_seconds():.1f} s"
    if waits <= PATIENCE:
        return Check(ok=True, detail=told)
    if taken:
        return Check(ok=True, detail=f"{told}; workers are busy")
    return Check(ok=False, detail=f"{told} and no worker has taken any since")


def anything_taken(*, since: datetime, now: datetime) -> bool:
    """A run that is alive in a worker's hands, or an occurrence that started since.

    The index on `scheduled_for` bounds the second question: what starts now was mostly due lately.
    """
    alive = TaskRun.objects.filter(state__in=RUN_HELD, lease_until__gt=now)
    recent = Occurrence.objects.filter(scheduled_for__gte=since - LATELY, started_at__gte=since)
    return alive.exists() or recent.exists()


def readiness(oldest_tick: timedelta | None, timeout: float = TIMEOUT) -> dict[str, Check]:
    checks = {
        "database": database,
        "broker": broker,
        "tick": lambda: tick(oldest_tick),
        "consumption": consumption,
    }
    return run(checks, timeout)


def run(checks: Mapping[str, Callable[[], Check]], timeout: float) -> dict[str, Check]:
    """All checks at once, none longer than `timeout`.

    Each gets a thread: a partitioned network blocks a driver far beyond its own timeouts, and only
    walking away from the call keeps the probe's answer in time.
    """
    results: dict[str, Check] = {}
    threads = [
        Thread(target=_record, args=(results, name, check), daemon=True) for name, check in checks.items()
    ]
    for thread in threads:
        thread.start()
    deadline = monotonic() + timeout
    for thread in threads:
        thread.join(max(0.0, deadline - monotonic()))
    late = Check(ok=False, detail=f"no answer within {timeout:g} s")
    return {name: results.get(name, late) for name in checks}


def _record(results: dict[str, Check], name: str, check: Callable[[], Check]) -> None:
    try:
        results[name] = check()
    except Exception as error:  # noqa: BLE001 - whatever a driver raises means "not ready"
        emit(Event.PROBE_FAILED, check=name, error=type(error).__name__, detail=" ".join(str(error).split()))
        results[name] = Check(ok=False, detail=f"unreachable ({type(error).__name__})")
    finally:
        connections.close_all()  # this thread's own
