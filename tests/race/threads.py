"""Callables → all of them started at one moment, or one within the other; each on a connection of its own."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier, Event
from typing import TypeVar

from django.db import connection, transaction

Result = TypeVar("Result")
PATIENCE = 30.0  # seconds; PostgreSQL finds a deadlock after one


def at_once(*calls: Callable[[], Result]) -> list[Result]:
    """Raises what any of them raised: a deadlock or a lost race must not go unnoticed."""
    barrier = Barrier(len(calls))
    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(_released, barrier, call) for call in calls]
        return [future.result(timeout=PATIENCE) for future in futures]


def _released(barrier: Barrier, call: Callable[[], Result]) -> Result:
    try:
        connection.ensure_connection()
        barrier.wait(PATIENCE)
        return call()
    finally:
        connection.close()


def before_commit(first: Callable[[], Result], second: Callable[[], Result]) -> tuple[Result, Result]:
    """The second begins when the first has done everything but commit, which it does as soon as the second
    has ended or waits for it. Raises what either of them raised."""
    done, go = Event(), Event()

    def held_open() -> Result:
        try:
            with transaction.atomic():
                result = first()
                done.set()
                go.wait(PATIENCE)
            return result
        finally:
            done.set()
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(held_open)
        done.wait(PATIENCE)
        other = pool.submit(_released, Barrier(1), second)
        _wait_until_done_or_blocked(other)
        go.set()
        return one.result(timeout=PATIENCE), other.result(timeout=PATIENCE)


def _wait_until_done_or_blocked(other: "Future[Result]") -> None:
    deadline = time.monotonic() + PATIENCE
    while not other.done() and not _blocked() and time.monotonic() < deadline:
        time.sleep(0.01)


def wait_until_blocked(backends: int = 1) -> None:
    """Returns once so many of our connections wait for a lock another one holds."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if _blocked() >= backends:
            return
    raise TimeoutError("nobody waits for a lock")


def _blocked() -> int:
    waiting = "wait_event_type = 'Lock' AND datname = current_database()"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {waiting}")  # noqa: S608 - both parts are ours
        return int(cursor.fetchone()[0])


def names(count: int, prefix: str = "job") -> Sequence[str]:
    return [f"{prefix}-{number:03d}" for number in range(count)]
