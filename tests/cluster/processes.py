"""A cluster for one test: its own database and broker, with real beats and workers.

Every process is started in its own process group and killed by its id: by `stop_all`, or by the guardian
if the test run itself is killed.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal

from django.db import connections

from scheduler_project import environment
from tests.guardian import Guardian
from tests.servers import Installation, Server, run_postgres, start_valkey

ROOT = Path(__file__).resolve().parents[2]
APP = "tests.cluster.app"
TOOLS = "tests.cluster.tools"  # functions for jobs that a test inserts as rows
ALIAS = "cluster"  # alias of the cluster's database in Django's connections
LOG_TAIL = 40  # lines of each process's log in a failure message
STOP_TIMEOUT = 30.0  # seconds for a process to end after SIGTERM
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")

Pool = Literal["prefork", "solo", "threads"]


@dataclass
class Process:
    """One beat or worker; its log file has its name."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    ended: bool = False  # by the test

    @property
    def died(self) -> bool:
        return not self.alive and not self.ended

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    @property
    def lines(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()

    @property
    def children(self) -> list[int]:
        """Process ids of a worker's pool, oldest first."""
        pid = self.popen.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def cpu_seconds(self) -> float:
        """Processor time used so far, in user and kernel mode."""
        # The second field is the program's name in parentheses, which may contain spaces.
        fields = Path(f"/proc/{self.popen.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def memory(self) -> int:
        """Resident bytes."""
        pages = int(Path(f"/proc/{self.popen.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def peak_memory(self) -> int:
        """The peak of resident bytes."""
        (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.popen.pid}/status").read_text())
        return int(peak) * 1024

    def tail(self) -> str:
        lines = self.lines[-LOG_TAIL:]
        state = "alive" if self.alive else f"exited with {self.popen.returncode}"
        return "\n".join([f"--- {self.name} ({state})", *lines])


@dataclass
class OwnPostgres:
    """A PostgreSQL server that a test may crash without affecting other tests."""

    installed: Installation
    guardian: Guardian
    server: Server = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        # Unlike in other tests, a confirmed commit must survive the crash of the server.
        self.server = run_postgres(self.installed, self.guardian, synchronous_commit="on")

    def crash(self) -> None:
        """`pg_ctl stop -m immediate`: close all connections; the next start replays the log."""
        self.server.stop(self.guardian)


@dataclass
class Cluster:
    """Processes that share one database and one broker."""

    folder: Path
    guardian: Guardian
    database_url: str
    postgres: OwnPostgres | None = None  # only with the parameter "own_postgres"
    apps: str = APP
    variables: dict[str, str] = field(default_factory=dict)
    broker: Server = field(init=False)
    processes: list[Process] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.broker = start_valkey(self.folder, self.guardian)
        entry = environment.database({"DATABASE_URL": self.database_url}, self.folder)
        entry["OPTIONS"].pop("pool", None)  # the test has one connection, closed at its end
        connections.settings[ALIAS] = connections.configure_settings({"default": entry})["default"]

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "DATABASE_URL": self.database_url,
            "BROKER_URL": self.broker.url,
            "PUNCTUAL_APPS": self.apps,
            "PUNCTUAL_VAR": str(self.folder),
            "LOG_LEVEL": "INFO",
            "PYTHONUNBUFFERED": "1",
            **self.variables,
        }

    def start_beat(self) -> Process:
        return self._start("beat", ["beat", "--pidfile="])

    def start_worker(
        self, *, concurrency: int = 2, pool: Pool = "prefork", queues: str = "default"
    ) -> Process:
        name = f"worker{next(self._numbers)}"
        options = ["--pool", pool, "--concurrency", str(concurrency), "--hostname", f"{name}@%h"]
        options += ["--queues", queues]
        return self._start(name, ["worker", *options, "--without-mingle", "--without-gossip"])

    def start_flower(self, port: int) -> Process:
        return self._start("flower", ["flower", f"--port={port}"])

    def start_web(self, port: int, *, workers: int = 1) -> Process:
        options = ["--bind", f"127.0.0.1:{port}", "--threads", "4", "--no-control-socket"]
        options += ["--workers", str(workers)]
        return self._start_module("web", ["gunicorn", *options, "scheduler_project.wsgi"])

    def manage(self, *arguments: str) -> str:
        return manage(self.environment, *arguments)

    def kill(self, process: Process) -> None:
        """Send SIGKILL to the process and all its children."""
        self._end(process, signal.SIGKILL)

    def kill_child(self, process: Process, index: int = 0) -> int:
        """Send SIGKILL to one process of a worker's pool; return its process id."""
        child = process.children[index]
        os.kill(child, signal.SIGKILL)
        return child

    def freeze(self, process: Process) -> None:
        """Send SIGSTOP to the whole group, to simulate a machine that hangs: connections stay open."""
        os.killpg(process.popen.pid, signal.SIGSTOP)

    def thaw(self, process: Process) -> None:
        os.killpg(process.popen.pid, signal.SIGCONT)

    def stop(self, process: Process, *, timeout: float = STOP_TIMEOUT) -> None:
        """Send SIGTERM; raise if the process does not end in time."""
        process.ended = True
        if process.alive:
            process.popen.terminate()
            process.popen.wait(timeout=timeout)
        self._end(process, signal.SIGKILL)

    def kill_broker(self) -> None:
        self.broker.process.kill()
        self.broker.stop(self.guardian)

    def restart_broker(self) -> None:
        """Start an empty broker: nothing is persisted."""
        (self.folder / "valkey.sock").unlink(missing_ok=True)
        self.broker = start_valkey(self.folder, self.guardian)

    def crash_postgres(self) -> None:
        self._own_postgres.crash()
        connections[ALIAS].close()

    def restart_postgres(self) -> None:
        """Start the server on the same data directory."""
        self._own_postgres.start()

    @property
    def _own_postgres(self) -> OwnPostgres:
        if self.postgres is None:
            raise LookupError('this server is shared: use the cluster "own_postgres"')
        return self.postgres

    def stop_all(self) -> None:
        connections[ALIAS].close()
        del connections[ALIAS]
        del connections.settings[ALIAS]
        # SIGKILL at once, so that a hung process cannot hang the test run.
        for process in self.processes:
            self._end(process, signal.SIGKILL)
        self.broker.stop(self.guardian)

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with connections[ALIAS].cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Execute raw SQL and commit; return the number of rows."""
        with connections[ALIAS].cursor() as cursor:
            cursor.execute(sql, parameters)
            return int(cursor.rowcount)

    def wait_until(
        self, predicate: Callable[[], object], *, timeout: float, describe: Callable[[], object] | str
    ) -> None:
        """Poll until true; fail at the deadline, or as soon as a process dies that the test did not end."""
        deadline = time.monotonic() + timeout
        while not predicate():
            dead = [process.name for process in self.processes if process.died]
            if dead or time.monotonic() > deadline:
                reason = f"{', '.join(dead)} died" if dead else f"not within {timeout:g} s"
                what = describe if isinstance(describe, str) else describe()
                raise AssertionError(f"{reason}: {what}\n{self.logs()}")
            time.sleep(0.05)

    def logs(self) -> str:
        return "\n".join(process.tail() for process in self.processes)

    def log_lines(self, *words: str) -> list[str]:
        """Lines of all logs that contain one of the words, ignoring case."""
        return [
            f"{process.name}: {line}"
            for process in self.processes
            for line in process.lines
            if any(word.lower() in line.lower() for word in words)
        ]

    def _start(self, kind: str, arguments: list[str]) -> Process:
        return self._start_module(kind, ["celery", "-A", "scheduler_project", *arguments])

    def _start_module(self, kind: str, words: list[str]) -> Process:
        name = kind if kind.startswith("worker") else f"{kind}{next(self._numbers)}"
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            popen = subprocess.Popen(
                [sys.executable, "-m", *words],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.guardian.watch(popen.pid)
        process = Process(name, popen, log)
        self.processes.append(process)
        return process

    def _end(self, process: Process, number: signal.Signals) -> None:
        process.ended = True
        # The group still exists if pool processes outlive their parent; it is gone when all have ended.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.popen.pid, number)
        process.popen.wait(timeout=STOP_TIMEOUT)
        self.guardian.forget(process.popen.pid)


def manage(environment: dict[str, str], *arguments: str) -> str:
    """Run a management command in its own process; return its output, or fail with its errors."""
    process = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if process.returncode:
        raise AssertionError(
            f"{arguments} exited with {process.returncode}:\n{process.stdout}{process.stderr}"
        )
    return process.stdout
