"""Database, broker, beats → a verdict with one line per check.

A line names what failed and how, never where: no address, user or password. The log has the rest.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Thread
from time import monotonic

from celery import current_app
from django.db import connections

from beat.models import Beat
from jobs.clock import database_now

TIMEOUT = 2.0  # seconds a check may take; probes commonly give up after a few
logger = logging.getLogger(__name__)


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


def tick(oldest: timedelta) -> Check:
    return judged_tick(newest_tick(), database_now(), oldest)


def newest_tick() -> datetime | None:
    return Beat.objects.order_by("-ticked_at").values_list("ticked_at", flat=True).first()


def judged_tick(newest: datetime | None, now: datetime, oldest: timedelta) -> Check:
    if newest is None:
        return Check(ok=False, detail="no beat has ever ticked")
    age = (now - newest).total_seconds()
    bound = oldest.total_seconds()
    return Check(ok=age <= bound, detail=f"newest tick {age:.1f} s ago, at most {bound:g} s allowed")


def readiness(oldest_tick: timedelta, timeout: float = TIMEOUT) -> dict[str, Check]:
    checks = {"database": database, "broker": broker, "tick": lambda: tick(oldest_tick)}
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
        logger.warning("not ready: %s: %s", name, error)
        results[name] = Check(ok=False, detail=f"unreachable ({type(error).__name__})")
    finally:
        connections.close_all()  # this thread's own
