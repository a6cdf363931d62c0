"""Readiness checks of database, broker, beats, workers and queues: one verdict and one line per check.

A line says what failed and how, without address, user or password. The log has the details.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Thread
from time import monotonic

from celery import current_app
from django.db import connections

from punctual.beat.tick import MAX_SLEEP
from punctual.console.status.outage_reasons import outage_reason
from punctual.console.status.queue_coverage import describe_unserved, unserved_queues
from punctual.execution.models import Process
from punctual.jobs.clock import database_now
from punctual.jobs.events import Event, emit
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import RUN_HELD
from punctual.recovery.models import PruneRound

MAX_WAIT = timedelta(seconds=30)  # a message that waits longer needs proof that workers are working
RECENT = timedelta(hours=1)
DEGRADING = frozenset({"queues"})  # when only these fail, the platform works, but not all of it
TIMEOUT = 2.0  # seconds per check; probes commonly give up after a few


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
    newest = Process.objects.beats().order_by("-seen_at").first()
    if newest is None:
        # A beat that stops deletes its row; the round of pruning that its first sweep began stays.
        ticked = PruneRound.objects.exists()
        return Check(
            ok=False, detail="no beat runs, all were stopped" if ticked else "no beat has ever ticked"
        )
    return judge_tick(newest.seen_at, database_now(), oldest or allowed_silence(newest.tick_duration))


def allowed_silence(lag: timedelta) -> timedelta:
    """Allow two intervals of the longest sleep plus the duration of the last tick."""
    return 2 * (MAX_SLEEP + lag)


def judge_tick(newest: datetime, now: datetime, oldest: timedelta) -> Check:
    age = (now - newest).total_seconds()
    bound = oldest.total_seconds()
    return Check(ok=age <= bound, detail=f"newest tick {age:.1f} s ago, at most {bound:.3g} s allowed")


def consumption() -> Check:
    """Check that workers claim messages: a worker may answer pings and still take nothing."""
    now = database_now()
    waiting = TaskRun.objects.unclaimed(before=now).order_by("dispatched_at")
    sent = waiting.values_list("dispatched_at", flat=True).first()
    if sent is None:
        return Check(ok=True, detail="no message waits")
    return judge_consumption(now - sent, taken=any_run_taken(since=sent, now=now))


def judge_consumption(waits: timedelta, *, taken: bool) -> Check:
    detail = f"oldest message waits {waits.total_seconds():.1f} s"
    if waits <= MAX_WAIT:
        return Check(ok=True, detail=detail)
    if taken:
        return Check(ok=True, detail=f"{detail}; workers are busy")
    return Check(ok=False, detail=f"{detail} and no worker has taken any since")


def any_run_taken(*, since: datetime, now: datetime) -> bool:
    """Return whether a worker holds a live lease, or an occurrence started since.

    The index on `scheduled_for` bounds the second query: what starts now was mostly due recently.
    """
    alive = TaskRun.objects.filter(state__in=RUN_HELD, lease_until__gt=now)
    recent = Occurrence.objects.filter(scheduled_for__gte=since - RECENT, started_at__gte=since)
    return alive.exists() or recent.exists()


def queues() -> Check:
    """Check that every queue in which runs wait has a worker, whatever the other queues do."""
    now = database_now()
    unserved = unserved_queues(now)
    if not unserved:
        return Check(ok=True, detail="every queue in which runs wait has a worker")
    return Check(ok=False, detail=describe_unserved(unserved, now))


def readiness(oldest_tick: timedelta | None, timeout: float = TIMEOUT) -> dict[str, Check]:
    checks = {
        "database": database,
        "broker": broker,
        "tick": lambda: tick(oldest_tick),
        "consumption": consumption,
        "queues": queues,
    }
    return run_checks(checks, timeout)


def run_checks(checks: Mapping[str, Callable[[], Check]], timeout: float) -> dict[str, Check]:
    """Run all checks at once, for `timeout` seconds at most.

    Each gets a thread: in a network partition a driver blocks far beyond its own timeouts, and only
    abandoning the call keeps the probe's answer in time.
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
    except Exception as error:  # noqa: BLE001 - any error of a driver means "not ready"
        emit(Event.PROBE_FAILED, check=name, error=type(error).__name__, detail=" ".join(str(error).split()))
        results[name] = Check(ok=False, detail=outage_reason(error))
    finally:
        connections.close_all()  # this thread's own
