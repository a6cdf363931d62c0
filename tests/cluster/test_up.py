"""`manage.py up` as a user runs it: real processes, embedded database, bundled broker."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from tests.guardian import Guardian
from tests.servers import make_folder

ROOT = Path(__file__).resolve().parents[2]
CHOICES = ("DATABASE_URL", "BROKER_URL", "RESULT_URL", "SECRET_KEY", "ALLOWED_HOSTS", "HTTPS")
TIMEOUT = 90.0  # seconds; everything below takes a few on an idle machine

pytestmark = [pytest.mark.cluster, pytest.mark.req("OPS-1")]


class Up:
    """One `manage.py up`, its log, and every process it ever started."""

    cwd = ROOT

    def __init__(self, var: Path, guardian: Guardian, *arguments: str, **variables: str) -> None:
        self.var = var
        self.port, self.flower_port = free_ports()
        self.log = var.parent / "up.log"
        self.guardian = guardian
        self.seen: set[int] = set()
        with self.log.open("wb") as output:
            self.popen = subprocess.Popen(
                command(self.port, self.flower_port, *arguments),
                cwd=self.cwd,
                env=environment(var, **variables),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        guardian.watch(self.popen.pid)

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def children(self) -> dict[str, int]:
        """The latest process id by name; each process is passed to the guardian."""
        pids = {name: int(pid) for name, pid in re.findall(r"started (\S+) \(pid (\d+)\)", self.text)}
        for pid in set(pids.values()) - self.seen:
            self.guardian.watch(pid)
        self.seen |= set(pids.values())
        return pids

    def all_processes(self) -> set[int]:
        """All processes of the groups that the children lead."""
        self.children()
        return {self.popen.pid} | self.seen | members(self.seen)

    def wait_until(self, true: Callable[[], object], *, what: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not true():
            assert time.monotonic() < deadline, f"not within {TIMEOUT:g} s: {what}\n{self.text}"
            time.sleep(0.05)

    def wait_until_ready(self) -> None:
        def ready() -> bool:
            assert self.popen.poll() is None, self.text
            return "ready after" in self.text

        self.wait_until(ready, what="ready")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.popen.send_signal(number)
        return self.popen.wait(timeout=TIMEOUT)

    def get(self, path: str, *, port: int | None = None, login: str = "") -> int:
        connection = HTTPConnection("127.0.0.1", port or self.port, timeout=10)
        headers = {"Authorization": f"Basic {b64encode(login.encode()).decode()}"} if login else {}
        try:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status
        except (OSError, HTTPException):
            return 0
        finally:
            connection.close()

    def end(self) -> None:
        """Kill all remaining processes by id."""
        self.children()
        for group in (self.popen.pid, *self.seen):
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
            self.guardian.forget(group)
        self.popen.wait()


StartUp = Callable[..., Up]


@pytest.fixture
def var(guardian: Guardian) -> Path:
    folder = make_folder("punctual-up-")
    guardian.remove(folder)
    return folder / "var"


@pytest.fixture
def up(var: Path, guardian: Guardian) -> Iterator[StartUp]:
    started: list[Up] = []

    def start(*arguments: str, **variables: str) -> Up:
        started.append(Up(var, guardian, *arguments, **variables))
        return started[-1]

    yield start
    for instance in started:
        instance.end()


def free_ports() -> tuple[int, int]:
    with (
        socket.create_server(("127.0.0.1", 0)) as first,
        socket.create_server(("127.0.0.1", 0)) as second,
    ):
        return first.getsockname()[1], second.getsockname()[1]


def command(port: int, flower_port: int, *arguments: str) -> list[str]:
    ports = ("--port", str(port), "--flower-port", str(flower_port))
    return [sys.executable, "manage.py", "up", *ports, *arguments]


def environment(var: Path, **variables: str) -> dict[str, str]:
    """The data folder only: the embedded servers are used unless a test sets variables."""
    kept = {name: value for name, value in os.environ.items() if name not in CHOICES}
    return kept | {"PUNCTUAL_VAR": str(var)} | variables


def refusal(var: Path, *arguments: str, port: int | None = None, **variables: str) -> str:
    """The single line of output when `up` refuses to start."""
    free, flower_port = free_ports()
    done = subprocess.run(
        command(port or free, flower_port, *arguments),
        cwd=ROOT,
        env=environment(var, **variables),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode != 0
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    return line


def members(groups: set[int]) -> set[int]:
    """Processes that belong to one of the groups."""
    pids = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(state[2]) in groups:
                pids.add(int(folder.name))
    return pids


def alive(pid: int) -> bool:
    """Whether a process runs; zombies do not count."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def test_everything_comes_up_answers_and_is_gone_after_a_sigterm(up: StartUp) -> None:
    running = up()
    running.wait_until_ready()
    assert running.get("/healthz") == 200
    assert running.get("/admin/login/") == 200
    assert running.get("/", port=running.flower_port) == 401
    password = (running.var / "flower_password").read_text()
    assert running.get("/", port=running.flower_port, login=f"flower:{password}") == 200
    assert password not in running.text
    assert set(running.children()) == {"broker", "beat-1", "beat-2", "worker-1", "web", "flower"}
    pids = running.all_processes()
    assert len(pids) > 8  # the pool's and gunicorn's own processes too
    assert running.stop() == 0
    assert not [pid for pid in pids if alive(pid)]
    assert "Traceback" not in running.text
    assert running.text.index("stopping beat-1") < running.text.index("stopping broker")


@pytest.mark.early
def test_the_demo_prints_its_login_and_its_jobs_run(up: StartUp, var: Path) -> None:
    running = up("--demo", "--no-flower", "--beats", "1", "--concurrency", "2")
    running.wait_until_ready()
    password = (var / "demo_password").read_text()
    assert f"demo / {password}" in running.text
    assert "demo only" in running.text
    running.wait_until(lambda: "alive, scheduled for" in running.text, what="a heartbeat")
    assert running.stop(signal.SIGINT) == 0


@pytest.mark.alone
@pytest.mark.req("EXE-9")
def test_ctrl_c_ends_the_demo_in_seconds_while_its_slow_job_runs(up: StartUp) -> None:
    running = up("--demo", "--no-flower", "--beats", "1", "--concurrency", "2")
    running.wait_until(lambda: "Task slow-backup" in running.text, what="the slow job has started")
    began = time.monotonic()
    assert running.stop(signal.SIGINT) == 0
    assert time.monotonic() - began < 10, running.text
    assert "backup written" not in running.text


@pytest.mark.req("OPS-7")
def test_no_file_or_socket_of_the_embedded_platform_is_readable_by_others(up: StartUp, var: Path) -> None:
    running = up("--demo", "--no-flower", "--beats", "1", "--concurrency", "1")
    running.wait_until_ready()
    running.wait_until((var / "punctual.sqlite3-shm").exists, what="a connection of a beat")
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in (var, *var.rglob("*"))}
    assert {path.name for path in modes} >= {"punctual.sqlite3-wal", "punctual.sqlite3-shm", "broker.sock"}
    assert {str(path): oct(mode) for path, mode in modes.items() if mode & 0o077} == {}
    assert running.stop() == 0


def test_a_killed_child_is_restarted(up: StartUp) -> None:
    running = up("--no-flower", "--beats", "1", "--concurrency", "1")
    running.wait_until_ready()
    first = running.children()["web"]
    os.kill(first, signal.SIGKILL)
    running.wait_until(lambda: running.children()["web"] != first, what="another web process")
    assert "web was killed by signal 9; restarting it in 1 s" in running.text
    running.wait_until(lambda: running.get("/healthz") == 200, what="an answer")
    assert running.stop() == 0


@pytest.mark.early
def test_a_child_that_dies_for_good_stops_everything(up: StartUp) -> None:
    # gunicorn refuses this option, each time it is started.
    running = up("--beats", "1", "--concurrency", "1", GUNICORN_CMD_ARGS="--no-such-option")
    pids: set[int] = set()

    def over() -> bool:
        pids.update(running.all_processes())
        return running.popen.poll() is not None

    running.wait_until(over, what="the end")
    assert running.popen.returncode == 1
    assert "web exited with code 2 too often" in running.text.splitlines()[-1]
    assert not [pid for pid in pids if alive(pid)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="uses a feature of the Linux kernel")
def test_a_killed_supervisor_leaves_no_process_and_the_next_one_starts(up: StartUp) -> None:
    killed = up("--no-flower", "--beats", "1", "--concurrency", "1")
    killed.wait_until_ready()
    pids = killed.all_processes()
    killed.stop(signal.SIGKILL)
    killed.wait_until(lambda: not any(map(alive, pids)), what="no process left")
    again = up("--no-flower", "--beats", "1", "--concurrency", "1")
    again.wait_until_ready()
    assert again.stop() == 0


def test_a_second_up_on_the_same_data_is_refused(up: StartUp, var: Path) -> None:
    running = up("--no-flower", "--beats", "1", "--concurrency", "1")
    running.wait_until_ready()
    assert f"another `up` is running on {var}" in refusal(var)
    assert running.stop() == 0


def test_a_taken_port_is_one_line_and_nothing_is_made(var: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = refusal(var, port=port)
    assert line == (
        f"CommandError: cannot listen on 127.0.0.1:{port}: the port is taken; choose another with --port"
    )
    assert not (var / "punctual.sqlite3").exists()


def test_an_unreachable_database_is_one_line_and_nothing_is_made(var: Path) -> None:
    port, _ = free_ports()
    url = f"postgres://me:geheim@127.0.0.1:{port}/ledger"
    line = refusal(var, DATABASE_URL=url, SECRET_KEY="x" * 50)
    assert line.startswith("CommandError: cannot reach the database postgresql://me@127.0.0.1:")
    assert "geheim" not in line
    assert not var.exists()


def test_an_unreachable_broker_is_one_line_and_nothing_is_made(var: Path) -> None:
    port, _ = free_ports()
    line = refusal(var, BROKER_URL=f"redis://:geheim@127.0.0.1:{port}/0")
    assert line.startswith(f"CommandError: cannot reach the broker redis://:**@127.0.0.1:{port}/0")
    assert not (var / "punctual.sqlite3").exists()


@pytest.mark.early
@pytest.mark.req("OPS-6")
def test_every_line_of_every_process_is_an_object_when_json_is_asked_for(up: StartUp) -> None:
    running = up("--demo", "--no-flower", "--beats", "1", "--concurrency", "2", LOG_FORMAT="json")

    def lines() -> list[dict[str, object]]:
        return [json.loads(line) for line in running.text.splitlines(keepends=True) if line.endswith("\n")]

    def of(**fields: str) -> list[dict[str, object]]:
        return [line for line in lines() if fields.items() <= line.items()]

    running.wait_until(lambda: of(event="occurrence.finished", job="heartbeat"), what="a heartbeat")
    assert running.stop() == 0
    assert {line["program"] for line in lines()} >= {"up", "beat-1", "worker-1", "web"}
    assert of(program="web", logger="gunicorn.error")
    [synced] = of(event="jobs.synced")
    assert synced["beat"] == synced["process"]
    alive = of(logger="punctual.task.heartbeat.heartbeat")[0]
    assert {"job": "heartbeat", "task": "heartbeat", "attempt": 0}.items() <= alive.items()
    finished = of(event="occurrence.finished", job="heartbeat")[0]
    assert finished["occurrence"] == alive["occurrence"]
    assert str(alive["run"]).startswith("run_")
