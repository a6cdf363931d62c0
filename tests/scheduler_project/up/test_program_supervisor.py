import io
import os
import re
import signal
import sys
import time
from collections.abc import Callable

import pytest

from scheduler_project.up import program_supervisor
from scheduler_project.up.child import Program
from scheduler_project.up.errors import GaveUpError
from scheduler_project.up.merged_log import MergedLog
from scheduler_project.up.program_supervisor import EXIT_WINDOW, MAX_EXITS, Supervisor, pause_before_restart

PATIENCE = 30.0
RUNS_ON = "import signal; print('here', flush=True); signal.pause()"
STUBBORN = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('here', flush=True)\nwhile True: signal.pause()"
)


class Run:
    """Programs under a supervisor, and what the merged log said."""

    def __init__(self, *programs: Program, grace: float = 20.0) -> None:
        self.stream = io.StringIO()
        log = MergedLog(self.stream, [program.name for program in programs])
        self.supervisor = Supervisor(programs, env=dict(os.environ), log=log, grace=grace)

    def until(self, on_ready: Callable[[], None], *, patience: float = PATIENCE) -> None:
        self.supervisor.run(patience=patience, on_ready=on_ready)

    @property
    def lines(self) -> list[str]:
        return [re.sub(r" +\| ", ": ", line) for line in self.stream.getvalue().splitlines()]

    def said(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def place(self, text: str) -> int:
        return next(place for place, line in enumerate(self.lines) if text in line)

    def pids(self) -> list[int]:
        return [int(pid) for pid in re.findall(r"\(pid (\d+)\)", self.stream.getvalue())]


def python(
    name: str, code: str, *, ready: Callable[[], bool] | None = None, foundation: bool = False
) -> Program:
    return Program(name, (sys.executable, "-c", code), ready=ready, foundation=foundation)


def stop() -> None:
    signal.raise_signal(signal.SIGTERM)


def assert_all_gone(run: Run) -> None:
    assert run.pids()
    for pid in run.pids():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.req("OPS-1")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_every_child_and_the_handlers_are_restored(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    run = Run(python("a", RUNS_ON), python("b", RUNS_ON))
    run.until(lambda: signal.raise_signal(number))
    assert run.said("stopping a, b")
    assert not run.said("killing")
    assert_all_gone(run)
    assert signal.getsignal(number) is before


def test_the_next_program_waits_for_the_one_before() -> None:
    run = Run(
        python("first", RUNS_ON, ready=lambda: run.said("first: here")),
        python("second", RUNS_ON),
    )
    run.until(stop)
    assert run.place("first: here") < run.place("started second")


@pytest.mark.req("OPS-1")
def test_the_broker_stops_last() -> None:
    run = Run(python("broker", RUNS_ON, foundation=True), python("web", RUNS_ON))
    run.until(stop)
    assert run.place("stopping web") < run.place("stopping broker")


@pytest.mark.req("OPS-1")
def test_a_child_that_exits_is_restarted() -> None:
    run = Run(
        python("web", "print('here'); raise SystemExit(3)"),
        python("last", RUNS_ON, ready=lambda: len(run.pids()) > 2),
    )
    run.until(stop)
    assert run.said("up: web exited with code 3; restarting it in 1 s")
    assert run.place("web: here") < run.place("exited with code 3")
    assert_all_gone(run)


@pytest.mark.req("OPS-1")
def test_a_child_that_exits_too_often_stops_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_supervisor, "MAX_EXITS", 2)
    run = Run(python("web", RUNS_ON), python("beat", "raise SystemExit(7)"))
    with pytest.raises(GaveUpError, match=r"^beat exited with code 7 too often"):
        run.until(lambda: None)
    assert run.said("stopping web")
    assert_all_gone(run)


def test_a_child_killed_by_a_signal_is_reported_with_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_supervisor, "MAX_EXITS", 1)
    run = Run(python("beat", "import os; os.kill(os.getpid(), 9)"))
    with pytest.raises(GaveUpError, match="beat was killed by signal 9"):
        run.until(lambda: None)


def test_a_program_that_is_never_ready_stops_everything() -> None:
    run = Run(python("web", RUNS_ON, ready=lambda: False))
    with pytest.raises(GaveUpError, match=r"^web was not ready within 0\.5 s$"):
        run.until(lambda: None, patience=0.5)
    assert_all_gone(run)


def test_a_signal_during_the_start_stops_everything_without_a_banner() -> None:
    def never() -> bool:
        stop()
        return False

    banners: list[str] = []
    run = Run(python("web", RUNS_ON, ready=never), python("flower", RUNS_ON))
    run.until(lambda: banners.append("ready"))
    assert not banners
    assert not run.said("started flower")
    assert_all_gone(run)


@pytest.mark.req("OPS-1")
def test_a_child_that_ignores_the_grace_period_is_killed() -> None:
    run = Run(python("web", STUBBORN, ready=lambda: run.said("web: here")), grace=0.5)
    run.until(stop)
    assert run.said("killing web")
    assert_all_gone(run)


@pytest.mark.req("OPS-1")
def test_a_second_signal_kills_at_once() -> None:
    second = f"lambda *_: os.getppid() == {os.getpid()} and os.kill({os.getpid()}, signal.SIGINT)"
    hasty = (
        f"import os, signal; signal.signal(signal.SIGTERM, {second})\n"
        "print('here', flush=True)\nwhile True: signal.pause()"
    )
    run = Run(python("web", hasty, ready=lambda: run.said("web: here")), grace=PATIENCE)
    started = time.monotonic()
    run.until(stop)
    assert time.monotonic() - started < PATIENCE
    assert run.said("killing web")
    assert_all_gone(run)


def test_a_closed_reader_stops_everything() -> None:
    run = Run(python("web", RUNS_ON))

    def lose() -> None:
        run.supervisor.log.lost = True

    run.until(lose)
    assert_all_gone(run)


@pytest.mark.parametrize(("exits", "pause"), [(1, 1), (2, 2), (3, 4), (4, 8)])
def test_each_exit_doubles_the_pause(exits: int, pause: float) -> None:
    assert pause_before_restart([100.0] * exits, now=100.0) == pause


def test_too_many_exits_in_the_window_end_the_restarts() -> None:
    assert pause_before_restart([100.0] * MAX_EXITS, now=100.0 + EXIT_WINDOW) is None


def test_exits_before_the_window_are_forgotten() -> None:
    old = [0.0] * (MAX_EXITS * 2)
    assert pause_before_restart([*old, 100.0], now=100.0) == 1
