"""Measure server time and queries of every page, with 10,000 jobs and 1,000,000 occurrences.

    python benchmarks/pages.py [JOBS [OCCURRENCES]]

Starts its own PostgreSQL and Redis-compatible server and fills the database, which takes about a minute at
the default size. Each page is requested through Django's whole request cycle, in this process. The time is
the processor time of this process plus that of its database backend, without parallel workers, so that other
load on the machine matters little. The first request of each page is not counted; `ms` is the median of
five, `wall` the shortest elapsed time.
"""

# ruff: noqa: PLC0415 -- Django's models can be imported once its settings are complete
from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

# Without this, the folder of this script would come first on the path.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.stack import stack  # noqa: E402

JOBS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
ROWS = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
TIMES = 5
MAX_MS = 300  # milliseconds


def prepare() -> None:
    from punctual.jobs.clock import database_now
    from tests.console.fleet import fill_big

    started = perf_counter()
    fill_big(database_now(), jobs=JOBS, rows=ROWS, progress=show_progress)
    print(f"\rfilled in {perf_counter() - started:.0f} s" + " " * 40)


def show_progress(line: str) -> None:
    print(f"\r{line}", end="", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class View:
    """One request: processor seconds of this process and of its backend, elapsed seconds, queries."""

    process: float
    database: float
    wall: float
    queries: int

    @property
    def server_time(self) -> float:
        return self.process + self.database


def measure() -> None:
    from django.contrib.auth.models import User
    from django.test import Client, override_settings
    from django.urls import reverse

    from tests.console.paths import big_paths

    client = Client()
    client.force_login(User.objects.create_superuser("bench"))
    plain: Any = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
    print(f"{'page':34} {'queries':>7} {'process':>8} {'database':>8} {'ms':>6} {'wall':>6}")
    with override_settings(STORAGES=plain):
        for name, path in big_paths().items():
            report(name, [measure_request(partial(client.get, path)) for _ in range(1 + TIMES)])
        typed = partial(client.post, reverse("admin:punctual_job_schedule"), {"schedule": "30 2 * * *"})
        report("editor, schedule typed", [measure_request(typed) for _ in range(1 + TIMES)])


def report(name: str, views: list[View]) -> None:
    """Print the median. The first request is not counted: it loads templates and cold database pages."""
    requests = sorted(views[1:], key=attrgetter("server_time"))
    middle, quickest = requests[len(requests) // 2], min(request.wall for request in requests)
    mark = "" if middle.server_time * 1000 < MAX_MS else f"  above {MAX_MS}"
    process, database, both, least = (
        seconds * 1000 for seconds in (middle.process, middle.database, middle.server_time, quickest)
    )
    figures = f"{middle.queries:7d} {process:8.0f} {database:8.0f} {both:6.0f} {least:6.0f}"
    print(f"{name:34} {figures}{mark}", flush=True)


def measure_request(ask: Callable[[], Any]) -> View:
    from django.db import connection

    sent = 0

    def count(execute: Any, *args: Any) -> Any:
        nonlocal sent
        sent += 1
        return execute(*args)

    backend = own_backend()
    started, spent, wall = process_time(), processor_seconds(backend), perf_counter()
    with connection.execute_wrapper(count):
        answer = ask()
    wall = perf_counter() - wall
    assert answer.status_code == 200, (answer.request["PATH_INFO"], answer.status_code)
    path = answer.request["PATH_INFO"]
    idle = "/chores/" in path  # nothing to do in a consistent ledger
    assert idle or b"data-count>0<" not in answer.content, f"{path} finds nothing to count"
    return View(process_time() - started, processor_seconds(backend) - spent, wall, sent)


def own_backend() -> int:
    """The process id of this connection's backend; parallel workers are disabled, so that its time is all."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET max_parallel_workers_per_gather = 0")
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def processor_seconds(pid: int) -> float:
    """Processor seconds of a process, with nanosecond resolution."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


if __name__ == "__main__":
    with stack(ALLOWED_HOSTS="testserver", HTTPS="off", LOG_LEVEL="ERROR"):
        prepare()
        print(f"{JOBS:,} jobs, {ROWS:,} occurrences, each with a run and an attempt, a tenth dead letters")
        measure()
