"""Run calls in threads: all at once, or one within the other; each with its own connection."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier, Event
from typing import TypeVar

from django.db import connection, transaction

Result = TypeVar("Result")
TIMEOUT = 30.0  # seconds; PostgreSQL detects a deadlock after one


def at_once(*calls: Callable[[], Result]) -> list[Result]:
    """Run the calls at once and return their results; raises what any of them raised, such as a deadlock."""
    barrier = Barrier(len(calls))
    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(_call_when_released, barrier, call) for call in calls]
        return [future.result(timeout=TIMEOUT) for future in futures]


def _call_when_released(barrier: Barrier, call: Callable[[], Result]) -> Result:
    try:
        connection.ensure_connection()
        barrier.wait(TIMEOUT)
        return call()
    finally:
        connection.close()


def before_commit(first: Callable[[], Result], second: Callable[[], Result]) -> tuple[Result, Result]:
    """Run the second call while the first is not committed.

    The first commits when the second has ended or waits for its lock. Raises what either of them raised.
    """
    done, go = Event(), Event()

    def held_open() -> Result:
        try:
            with transaction.atomic():
                result = first()
                done.set()
                go.wait(TIMEOUT)
            return result
        finally:
            done.set()
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(held_open)
        done.wait(TIMEOUT)
        other = pool.submit(_call_when_released, Barrier(1), second)
        wait_until_done_or_blocked(other)
        go.set()
        return one.result(timeout=TIMEOUT), other.result(timeout=TIMEOUT)


def wait_until_done_or_blocked(other: "Future[Result]") -> None:
    deadline = time.monotonic() + TIMEOUT
    while not other.done() and not _count_blocked() and time.monotonic() < deadline:
        time.sleep(0.01)


def wait_until_blocked(backends: int = 1) -> None:
    """Return when so many of our connections wait for a lock."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if _count_blocked() >= backends:
            return
    raise TimeoutError("no connection waits for a lock")


def _count_blocked() -> int:
    waiting = "wait_event_type = 'Lock' AND datname = current_database()"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {waiting}")  # noqa: S608 - both parts are ours
        return int(cursor.fetchone()[0])


def names(count: int, prefix: str = "job") -> Sequence[str]:
    return [f"{prefix}-{number:03d}" for number in range(count)]
