"""Other job systems, each with its usual set-up on the servers of benchmarks/execution.py -> tasks a second.

python benchmarks/execution.py peers
"""

# ruff: noqa: PLC0415 -- each peer is imported when its turn comes, once the servers are known
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTHON = (sys.executable, "-m")  # with the project on its path

Run = Callable[..., Any]  # starts a program for the length of a block
Rate = Callable[[Callable[[], int], int], float]


@contextmanager
def workers(run: Run, commands: Sequence[Sequence[str]]) -> Iterator[None]:
    with ExitStack() as stack:
        for words in commands:
            stack.enter_context(run(*words))
        yield


def procrastinate(run: Run, rate: Rate, tasks: int) -> float:
    import psycopg

    from benchmarks.workload.procrastinating import app, noop

    command = [*PYTHON, "procrastinate", "--app", "benchmarks.workload.procrastinating.app"]
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

        # Two processes, for it is one event loop each.
        with workers(run, [[*command, "worker", "--concurrency", "4"]] * 2):
            return rate(done, tasks)


def dramatiq(run: Run, rate: Rate, tasks: int) -> float:
    from benchmarks.workload.dramatic import noop, results
    from benchmarks.workload.starts import server

    server().flushall()
    sent = [noop.send() for _ in range(tasks)]
    command = [*PYTHON, "dramatiq", "benchmarks.workload.dramatic", "--processes", "2", "--threads", "4"]
    with run(*command):
        found = rate(lambda: int(results.client.dbsize()), tasks)
    sent[-1].get_result(backend=results)  # raises what the no-op raised
    return found


def huey(run: Run, rate: Rate, tasks: int) -> float:
    from benchmarks.workload.hueys import huey as queue
    from benchmarks.workload.hueys import noop
    from benchmarks.workload.starts import server

    server().flushdb()
    sent = [noop() for _ in range(tasks)]
    command = [
        *PYTHON,
        "huey.bin.huey_consumer",
        "benchmarks.workload.hueys.huey",
        "-w",
        "2",
        "-k",
        "process",
    ]
    with run(*command):
        found = rate(lambda: int(queue.storage.result_store_size()), tasks)
    sent[-1].get()  # raises what the no-op raised
    return found


def django_q2(run: Run, rate: Rate, tasks: int) -> float:
    import psycopg

    from benchmarks.workload.starts import server

    server().flushdb()
    settings = {"DJANGO_SETTINGS_MODULE": "benchmarks.workload.q_settings"}
    filling = [sys.executable, "-m", "benchmarks.workload.fill_q", str(tasks)]
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
