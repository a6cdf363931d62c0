"""Callables → all of them started at one moment, each on a connection of its own; results in order."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from django.db import connection

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


def wait_until_blocked(backends: int = 1) -> None:
    """Returns once so many of our connections wait for a lock another one holds."""
    waiting = "wait_event_type = 'Lock' AND datname = current_database()"
    sql = f"SELECT count(*) FROM pg_stat_activity WHERE {waiting}"  # noqa: S608 - both parts are ours
    deadline = time.monotonic() + PATIENCE
    with connection.cursor() as cursor:
        while time.monotonic() < deadline:
            cursor.execute(sql)
            if cursor.fetchone()[0] >= backends:
                return
    raise TimeoutError("nobody waits for a lock")


def names(count: int, prefix: str = "job") -> Sequence[str]:
    return [f"{prefix}-{number:03d}" for number in range(count)]
