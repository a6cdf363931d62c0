"""Inject random faults into beats, workers, broker and database, then check the ledger.

    python benchmarks/faults.py [--seconds 60] [--seed 1] [--no-sweeper]

Starts its own PostgreSQL, Redis-compatible server, beats and workers, and keeps them under load. The seed
decides which fault happens when and how long it lasts. Afterwards all faults are repaired; when all
occurrences have ended, the ledger is compared with the schedules and with the effects of the tasks. Exit code
1 if an occurrence is lost, doubled or stuck. `--no-sweeper` disables the sweeper: the run must then fail.
"""

# ruff: noqa: PLC0415 -- Django's models can be imported once its settings are complete
from __future__ import annotations

import argparse
import contextlib
import heapq
import json
import os
import random
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

import psycopg  # noqa: E402

from tests.guardian import Guardian  # noqa: E402
from tests.servers import install_postgres, make_folder  # noqa: E402

if TYPE_CHECKING:
    from tests.cluster.processes import Cluster, OwnPostgres, Process

BEATS, WORKERS, CONCURRENCY = 2, 2, 2
PAUSE = (0.5, 4.0)  # seconds between two faults
DRAIN_TIMEOUT = 300.0  # seconds until all occurrences must have ended
PERSISTENT = {"max_retries": 200, "interval": "1s", "backoff": 1.0, "max_interval": "5s", "jitter": "1s"}
COMMON: dict[str, Any] = {"recovery": "execute_all", "retry": PERSISTENT}


def fleet() -> None:
    """About eight occurrences a second: single, parallel and sequential, exclusive and overlapping."""
    from tests.cluster.job_rows import insert_jobs, make_pool

    make_pool("default", 200)
    crowd = {**COMMON, "overlap": "allow"}
    insert_jobs((f"once-{n}" for n in range(10)), "*/3 * * * * *", function="once", **crowd)
    insert_jobs((f"plain-{n}" for n in range(10)), "*/5 * * * * *", function="effect", **crowd)
    insert_jobs(["fan"], "*/4 * * * * *", function="once", tasks=3, mode="parallel", **crowd)
    insert_jobs(["chain"], "*/5 * * * * *", function="once", tasks=3, **crowd)
    queued = {**COMMON, "overlap": "queue"}
    insert_jobs(["queued"], "*/6 * * * * *", function="once", **queued)
    insert_jobs(["slow"], "*/10 * * * * *", function="slow", metadata={"seconds": "2"}, **queued)


class Faults:
    """One cluster and its faults; scheduled repairs are kept in a heap."""

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self.cluster, self.chance = cluster, chance
        self.done: Counter[str] = Counter()
        self.repairs: list[tuple[float, int, Callable[[], None]]] = []
        self.frozen: set[str] = set()
        self.broken: set[str] = set()
        self.numbers = count()
        self.beats = [cluster.start_beat() for _ in range(BEATS)]
        self.workers = [cluster.start_worker(concurrency=CONCURRENCY) for _ in range(WORKERS)]
        self.kinds: list[tuple[str, Callable[[], bool]]] = [
            ("beat killed", lambda: self.kill(self.beats, self.cluster.start_beat)),
            ("worker killed", lambda: self.kill(self.workers, self.new_worker)),
            ("worker's child killed", self.kill_child),
            ("worker's parent killed", self.kill_parent),
            ("beat frozen", lambda: self.freeze(self.beats)),
            ("worker frozen", lambda: self.freeze(self.workers)),
            ("worker stopped with SIGTERM", self.stop_worker),
            ("broker killed and emptied", self.kill_broker),
            ("broker frozen", self.freeze_broker),
            ("broker cut off", self.cut_broker),
            ("database crashed", self.crash_database),
            ("database frozen", self.freeze_database),
            ("database connections cut", self.cut_database),
        ]

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            name, fault = self.chance.choice(self.kinds)
            if fault():
                self.done[name] += 1
            self.wait(self.chance.uniform(*PAUSE))
            self.restart_dead()
        while self.repairs:
            heapq.heappop(self.repairs)[2]()

    def wait(self, seconds: float) -> None:
        """Wait, and make the repairs that become due."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            while self.repairs and self.repairs[0][0] <= now:
                heapq.heappop(self.repairs)[2]()
            time.sleep(0.05)

    def later(self, least: float, most: float, repair: Callable[[], None]) -> None:
        at = time.monotonic() + self.chance.uniform(least, most)
        heapq.heappush(self.repairs, (at, next(self.numbers), repair))

    # -- beats and workers -----------------------------------------------------------------------

    def new_worker(self) -> Process:
        return self.cluster.start_worker(concurrency=CONCURRENCY)

    def one_of(self, processes: list[Process]) -> Process | None:
        usable = [item for item in processes if item.alive and item.name not in self.frozen]
        return self.chance.choice(usable) if usable else None

    def replace(self, processes: list[Process], old: Process, start: Callable[[], Process]) -> None:
        processes.remove(old)
        self.later(0.1, 3.0, lambda: processes.append(start()))

    def kill(self, processes: list[Process], start: Callable[[], Process]) -> bool:
        if (victim := self.one_of(processes)) is None:
            return False
        self.cluster.kill(victim)
        self.replace(processes, victim, start)
        return True

    def stop_worker(self) -> bool:
        """Send SIGTERM, and SIGKILL if the worker has not ended after some seconds."""
        if (victim := self.one_of(self.workers)) is None:
            return False
        victim.popen.terminate()
        self.workers.remove(victim)
        self.later(3.0, 10.0, lambda: self.cluster.kill(victim))
        self.later(0.1, 3.0, lambda: self.workers.append(self.new_worker()))
        return True

    def kill_child(self) -> bool:
        victim = self.one_of(self.workers)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, IndexError):
            if victim is not None and (children := victim.children):
                self.cluster.kill_child(victim, self.chance.randrange(len(children)))
                return True
        return False

    def kill_parent(self) -> bool:
        """Kill the parent process of a worker; its pool processes live on for a while."""
        if (victim := self.one_of(self.workers)) is None:
            return False
        victim.popen.kill()
        self.later(0.5, 5.0, lambda: self.cluster.kill(victim))
        self.replace(self.workers, victim, self.new_worker)
        return True

    def freeze(self, processes: list[Process]) -> bool:
        """Freeze a process for up to one and a half leases."""
        if (victim := self.one_of(processes)) is None or len(self.frozen) > 1:
            return False
        self.frozen.add(victim.name)
        self.cluster.freeze(victim)
        self.later(0.5, 45.0, lambda: self.thaw(victim))
        return True

    def thaw(self, victim: Process) -> None:
        self.frozen.discard(victim.name)
        with contextlib.suppress(ProcessLookupError):
            self.cluster.thaw(victim)

    # -- broker and database ---------------------------------------------------------------------

    def mark_broken(self, part: str) -> bool:
        """Mark a server as broken; False if it already is."""
        if part in self.broken:
            return False
        self.broken.add(part)
        return True

    def heal(self, part: str, *steps: Callable[[], object]) -> None:
        for step in steps:
            step()
        self.broken.discard(part)

    def kill_broker(self) -> bool:
        if not self.mark_broken("broker"):
            return False
        self.cluster.kill_broker()
        self.later(0.2, 8.0, lambda: self.heal("broker", self.cluster.restart_broker))
        return True

    def freeze_broker(self) -> bool:
        if not self.mark_broken("broker"):
            return False
        process = self.cluster.broker.process
        process.send_signal(signal.SIGSTOP)
        self.later(0.5, 8.0, lambda: self.heal("broker", lambda: process.send_signal(signal.SIGCONT)))
        return True

    def cut_broker(self) -> bool:
        """Close all connections of the broker and hide its socket; it keeps its data."""
        if not self.mark_broken("broker"):
            return False
        from redis import Redis

        socket = self.cluster.folder / "valkey.sock"
        hidden = socket.with_suffix(".away")
        with Redis(unix_socket_path=str(socket)) as client:
            client.ping()  # connect before the socket is hidden
            socket.rename(hidden)
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        self.later(0.5, 8.0, lambda: self.heal("broker", lambda: hidden.rename(socket)))
        return True

    def crash_database(self) -> bool:
        if not self.mark_broken("database"):
            return False
        self.cluster.crash_postgres()
        self.later(0.1, 6.0, lambda: self.heal("database", self.cluster.restart_postgres))
        return True

    def freeze_database(self) -> bool:
        if not self.mark_broken("database"):
            return False
        pids = self.database_processes()
        send(pids, signal.SIGSTOP)
        self.later(0.5, 8.0, lambda: self.heal("database", lambda: send(pids, signal.SIGCONT)))
        return True

    def cut_database(self) -> bool:
        """Terminate every database connection, including busy ones."""
        if "database" in self.broken:
            return False
        _postmaster, *backends = self.database_processes()
        send([pid for pid in backends if b"idle" in title(pid) or b"punctual" in title(pid)], signal.SIGTERM)
        return True

    def database_processes(self) -> list[int]:
        pid = self.cluster.postgres.server.process.pid  # type: ignore[union-attr]
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def restart_dead(self) -> None:
        """Restart processes that died by themselves, as a supervisor would."""
        for processes, start in ((self.beats, self.cluster.start_beat), (self.workers, self.new_worker)):
            for process in [item for item in processes if not item.alive]:
                self.cluster.kill(process)
                processes.remove(process)
                processes.append(start())
                self.done[f"{process.name.rstrip('-0123456789')} died by itself"] += 1
                last = process.lines[-1] if process.lines else "no output"
                print(f"{process.name} ended with {process.popen.returncode}: {last[-200:]}", file=sys.stderr)


def send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def title(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def wait_until_drained(faults: Faults, end: datetime) -> float:
    """Wait until no occurrence up to `end` is open; return the seconds, or DRAIN_TIMEOUT."""
    from punctual.occurrences.models import Occurrence
    from punctual.occurrences.states import OCCURRENCE_OPEN

    started = time.monotonic()
    while (waited := time.monotonic() - started) < DRAIN_TIMEOUT:
        faults.restart_dead()
        due = Occurrence.objects.filter(scheduled_for__lte=end, state__in=OCCURRENCE_OPEN)
        if not due.exclude(job__name="toolbox").exists() and all_planned(end):
            return waited
        time.sleep(0.5)
    return DRAIN_TIMEOUT


def all_planned(end: datetime) -> bool:
    from punctual.occurrences.models import Cursor

    return not Cursor.objects.exclude(job__name="toolbox").filter(settled_until__lt=end).exists()


def prepare() -> tuple[Guardian, Path, OwnPostgres]:
    guardian, folder = Guardian(), make_folder("punctual-faults-")
    guardian.remove(folder)
    os.environ |= {
        "SECRET_KEY": secrets.token_urlsafe(64),
        "ALLOWED_HOSTS": "localhost",
        "HTTPS": "off",
        "DJANGO_SETTINGS_MODULE": "scheduler_project.settings",
        "PUNCTUAL_VAR": str(folder),
        "PUNCTUAL_APPS": "tests.cluster.tools",
        "LOG_LEVEL": "WARNING",
        "DATABASE_URL": f"postgres://postgres@{str(folder / 'postgres').replace('/', '%2F')}/punctual",
        "BROKER_URL": f"redis+socket://{folder / 'valkey.sock'}",
    }
    import django

    django.setup()
    from tests.cluster.processes import APP, OwnPostgres, manage

    postgres = OwnPostgres(install_postgres(folder), guardian)
    with psycopg.connect(
        postgres.server.url.replace("/punctual", "/postgres"), autocommit=True
    ) as connection:
        connection.execute("CREATE DATABASE punctual")
    manage(os.environ | {"PUNCTUAL_APPS": APP}, "migrate", "--verbosity", "0")
    return guardian, folder, postgres


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-sweeper", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    guardian, folder, postgres = prepare()
    try:
        return run_faults(arguments, folder, guardian, postgres)
    finally:
        guardian.close()


def run_faults(arguments: argparse.Namespace, folder: Path, guardian: Guardian, postgres: OwnPostgres) -> int:
    from django.db import connection

    from benchmarks.checker import check, summary_rows
    from punctual.jobs.clock import database_now
    from tests.cluster.processes import TOOLS, Cluster

    cluster = Cluster(folder, guardian, postgres.server.url, postgres, apps=f"{TOOLS},benchmarks.fault_app")
    cluster.variables = {"LOG_LEVEL": "WARNING"}
    if arguments.no_sweeper:
        cluster.variables["FAULTS_NO_SWEEPER"] = "1"
    try:
        cluster.manage("punctual", "jobs", "sync")
        fleet()
        faults = Faults(cluster, random.Random(arguments.seed))  # noqa: S311 - a reproducible run, no secret
        faults.wait(8)  # wait until all processes are up
        faults.run(arguments.seconds)
        connection.close()  # it may be broken
        end = database_now()
        drained = wait_until_drained(faults, end)
        card = check(end=end)
        rows = [
            *((name, number) for name, number in sorted(faults.done.items())),
            ("faults injected", sum(faults.done.values())),
            *summary_rows(card),
            ("all occurrences ended within", f"{drained:.0f} s"),
        ]
        if arguments.json:
            print(json.dumps(dict(rows), indent=2))
        else:
            print(
                f"seed {arguments.seed}, {arguments.seconds:g} s"
                + (", without the sweeper" if arguments.no_sweeper else "")
            )
            for name, value in rows:
                print(f"  {name:36} {value}")
            print("  clean" if card.clean else "  NOT CLEAN")
        if not card.clean and os.environ.get("FAULTS_KEEP_LOGS"):
            print(cluster.logs())
        return 0 if card.clean else 1
    finally:
        cluster.stop_all()
        postgres.server.stop(guardian)


if __name__ == "__main__":
    sys.exit(main())
