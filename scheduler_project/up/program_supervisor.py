"""Start programs, restart those that exit, merge their logs, and stop all of them together.

One thread, one loop. Programs start in order; the next one waits until the one before is ready. A child that
exits is restarted after a pause; when it exits too often, everything stops. A signal stops everything:
SIGTERM, a grace period, SIGKILL. Programs that the others need (the broker) stop last.
"""

import selectors
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from scheduler_project.up.child import Child, Program
from scheduler_project.up.errors import GaveUpError
from scheduler_project.up.merged_log import MergedLog

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_INTERVAL = 0.2  # seconds between two looks at the children
MAX_EXITS = 5  # of one program within EXIT_WINDOW; then everything stops
EXIT_WINDOW = 60.0  # seconds
MAX_RESTART_PAUSE = 10.0  # seconds


class Supervisor:
    def __init__(
        self, programs: Sequence[Program], *, env: Mapping[str, str], log: MergedLog, grace: float
    ) -> None:
        self.programs = programs
        self.env = env
        self.log = log
        self.grace = grace
        self._children: dict[str, Child] = {}
        self._exits: defaultdict[str, list[float]] = defaultdict(list)
        self._restart_at: dict[str, float] = {}
        self._selector = selectors.DefaultSelector()
        self._stop_requested = False
        self._stopping = False
        self._kill_now = False

    def run(self, *, patience: float, on_ready: Callable[[], None]) -> None:
        """Run until a signal arrives; raise GaveUpError if a program does not start or exits too often."""
        with _on_signal(self._request_stop):
            try:
                if self._start_all(patience):
                    on_ready()
                while not self._should_stop():
                    self._run_once()
            finally:
                self._stop_all()

    def _should_stop(self) -> bool:
        return self._stop_requested or self.log.lost

    def _request_stop(self) -> None:
        self._kill_now = self._stopping
        self._stop_requested = True

    def _start_all(self, patience: float) -> bool:
        """Start the programs in order; return False if a signal arrived first."""
        deadline = time.monotonic() + patience
        for program in self.programs:
            self._start(program)
            while program.ready and not program.ready():
                self._run_once()
                if self._should_stop():
                    return False
                if time.monotonic() > deadline:
                    raise GaveUpError(f"{program.name} was not ready within {patience:g} s")
        return not self._should_stop()

    def _start(self, program: Program) -> None:
        child = Child(program, env=self.env)
        self._children[program.name] = child
        self._selector.register(child.output, selectors.EVENT_READ, child)
        self.log.say(f"started {program.name} (pid {child.pid})")

    def _run_once(self) -> None:
        """Forward the children's lines, collect the exited ones, restart those whose pause is over."""
        self._forward_lines()
        now = time.monotonic()
        for child in [child for child in self._children.values() if child.exit_code is not None]:
            self._collect(child)
            self._plan_restart(child, now=now)
        for name in [name for name, at in self._restart_at.items() if at <= now]:
            del self._restart_at[name]
            self._start(next(program for program in self.programs if program.name == name))

    def _forward_lines(self) -> None:
        for key, _ in self._selector.select(POLL_INTERVAL):
            child: Child = key.data
            self.log.write(child.program.name, child.read_lines())
            if child.output_ended:
                self._selector.unregister(child.output)

    def _collect(self, child: Child) -> None:
        if child.output in self._selector.get_map():
            self._selector.unregister(child.output)
        del self._children[child.program.name]
        self.log.write(child.program.name, child.end())

    def _plan_restart(self, child: Child, *, now: float) -> None:
        name, ending = child.program.name, _describe_exit(child.exit_code)
        self._exits[name].append(now)
        pause = pause_before_restart(self._exits[name], now=now)
        if pause is None:
            raise GaveUpError(f"{name} {ending} too often; stopped everything")
        self.log.say(f"{name} {ending}; restarting it in {pause:g} s")
        self._restart_at[name] = now + pause

    def _stop_all(self) -> None:
        self._stopping = True
        for foundation in (False, True):
            names = [
                child.program.name
                for child in self._children.values()
                if child.program.foundation is foundation
            ]
            if names:
                self._stop(names)
        self._selector.close()

    def _stop(self, names: Sequence[str]) -> None:
        self.log.say(f"stopping {', '.join(names)} (up to {self.grace:g} s; Ctrl-C again to kill)")
        for name in names:
            self._children[name].terminate()
        deadline = time.monotonic() + self.grace
        while left := [self._children[name] for name in names if name in self._children]:
            late = self._kill_now or time.monotonic() > deadline
            for child in left:
                if late:
                    self.log.say(f"killing {child.program.name}")
                if late or child.exit_code is not None:
                    self._collect(child)
            self._forward_lines()


def pause_before_restart(exits: Sequence[float], *, now: float) -> float | None:
    """Return the seconds to wait after the latest exit; None when the program exited too often."""
    recent = sum(now - at <= EXIT_WINDOW for at in exits)
    if recent >= MAX_EXITS:
        return None
    return min(2.0 ** (recent - 1), MAX_RESTART_PAUSE)


def _describe_exit(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by signal {-code}"
    return f"exited with code {code}"


@contextmanager
def _on_signal(react: Callable[[], None]) -> Iterator[None]:
    previous = {number: signal.signal(number, lambda *_: react()) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
