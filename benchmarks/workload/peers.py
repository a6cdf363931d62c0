"""Measure the throughput of other job systems, each with its usual set-up, on the same servers.

python benchmarks/execution.py peers
"""

# ruff: noqa: PLC0415 -- peers read the servers' addresses when imported
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTHON = (sys.executable, "-m")  # puts the project on the path

Run = Callable[..., Any]  # context manager: runs a program during the block
Rate = Callable[[Callable[[], int], int], float]


@contextmanager
def workers(run: Run, commands: Sequence[Sequence[str]]) -> Iterator[None]:
    with ExitStack() as stack:
        for words in commands:
            stack.enter_context(run(*words))
        yield


def procrastinate(run: Run, rate: Rate, tasks: int) -> float:
    import psycopg

    from benchmarks.workload.procrastinate_tasks import app, noop

    command = [*PYTHON, "procrastinate", "--app", "benchmarks.workload.procrastinate_tasks.app"]
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        subprocess.run([*command, "schema", "--apply"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        from procrastinate import SyncPsycopgConnector

        plain = SyncPsycopgConnector(conninfo=os.environ["DATABASE_URL"])
        with app.replace_connector(plain) as here, here.open():
            noop.batch_defer(*({} for _ in range(tasks)))

        def done() -> int:
            row = connection.execute(
                "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
            ).fetchone()
            return int(row[0]) if row else 0

        # Two processes, because each is a single event loop.
        with workers(run, [[*command, "worker", "--concurrency", "4"]] * 2):
            return rate(done, tasks)


def dramatiq(run: Run, rate: Rate, tasks: int) -> float:
    from benchmarks.workload.dramatiq_actors import noop, results
    from benchmarks.workload.start_times import server

    server().flushall()
    sent = [noop.send() for _ in range(tasks)]
    command = [
        *PYTHON,
        "dramatiq",
        "benchmarks.workload.dramatiq_actors",
        "--processes",
        "2",
        "--threads",
        "4",
    ]
    with run(*command):
        result = rate(lambda: int(results.client.dbsize()), tasks)
    sent[-1].get_result(backend=results)  # raises if the no-op failed
    return result


def huey(run: Run, rate: Rate, tasks: int) -> float:
    from benchmarks.workload.huey_tasks import huey as queue
    from benchmarks.workload.huey_tasks import noop
    from benchmarks.workload.start_times import server

    server().flushdb()
    sent = [noop() for _ in range(tasks)]
    command = [
        *PYTHON,
        "huey.bin.huey_consumer",
        "benchmarks.workload.huey_tasks.huey",
        "-w",
        "2",
        "-k",
        "process",
    ]
    with run(*command):
        result = rate(lambda: int(queue.storage.result_store_size()), tasks)
    sent[-1].get()  # raises if the no-op failed
    return result


def django_q2(run: Run, rate: Rate, tasks: int) -> float:
    import psycopg

    from benchmarks.workload.start_times import server

    server().flushdb()
    settings = {"DJANGO_SETTINGS_MODULE": "benchmarks.workload.django_q_settings"}
    filling = [sys.executable, "-m", "benchmarks.workload.django_q_fill", str(tasks)]
    subprocess.run(filling, cwd=ROOT, check=True, env=os.environ | settings, stdout=subprocess.DEVNULL)
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:

        def done() -> int:
            row = connection.execute("SELECT count(*) FROM django_q_task WHERE success").fetchone()
            return int(row[0]) if row else 0

        with run(sys.executable, "manage.py", "qcluster", env=os.environ | settings):
            return rate(done, tasks)


PEERS: dict[str, Callable[[Run, Rate, int], float]] = {
    "procrastinate": procrastinate,
    "django-q2": django_q2,
    "dramatiq": dramatiq,
    "huey": huey,
}
