"""Programs → running children, one merged log, and an end that leaves nothing behind.

One thread, one loop. Programs start in order; one with a `ready` question holds back the next until
it answers. A child that dies is restarted after a pause (`restarts`), and when it dies too often
everything stops. A signal stops everything: SIGTERM, a grace period, SIGKILL; what the others stand
on (the broker) goes last.
"""

import selectors
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from scheduler_project.child import Child, Program
from scheduler_project.errors import GaveUpError
from scheduler_project.merged_log import MergedLog
from scheduler_project.restarts import pause_before_restart

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BREATH = 0.2  # seconds between two looks at the children


class Supervisor:
    def __init__(
        self, programs: Sequence[Program], *, env: Mapping[str, str], log: MergedLog, grace: float
    ) -> None:
        self.programs = programs
        self.env = env
        self.log = log
        self.grace = grace
        self._children: dict[str, Child] = {}
        self._deaths: defaultdict[str, list[float]] = defaultdict(list)
        self._restart_at: dict[str, float] = {}
        self._selector = selectors.DefaultSelector()
        self._stop_asked = False
        self._stopping = False
        self._hurry = False

    def run(self, *, patience: float, on_ready: Callable[[], None]) -> None:
        """Until a signal comes; GaveUpError when a program does not come up or dies for good."""
        with _on_signal(self._ask_to_stop):
            try:
                if self._bring_up(patience):
                    on_ready()
                while not self._should_stop():
                    self._turn()
            finally:
                self._stop_all()

    def _should_stop(self) -> bool:
        return self._stop_asked or self.log.lost

    def _ask_to_stop(self) -> None:
        self._hurry = self._stopping
        self._stop_asked = True

    def _bring_up(self, patience: float) -> bool:
        """Start everything in order; False when a signal came first."""
        deadline = time.monotonic() + patience
        for program in self.programs:
            self._start(program)
            while program.ready and not program.ready():
                self._turn()
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

    def _turn(self) -> None:
        """Pass on what the children say, see to the dead, start who has waited enough."""
        self._listen()
        now = time.monotonic()
        for child in [child for child in self._children.values() if child.exit_code is not None]:
            self._bury(child)
            self._plan_restart(child, now=now)
        for name in [name for name, at in self._restart_at.items() if at <= now]:
            del self._restart_at[name]
            self._start(next(program for program in self.programs if program.name == name))

    def _listen(self) -> None:
        for key, _ in self._selector.select(BREATH):
            child: Child = key.data
            self.log.write(child.program.name, child.read_lines())
            if child.silent:
                self._selector.unregister(child.output)

    def _bury(self, child: Child) -> None:
        if child.output in self._selector.get_map():
            self._selector.unregister(child.output)
        del self._children[child.program.name]
        self.log.write(child.program.name, child.end())

    def _plan_restart(self, child: Child, *, now: float) -> None:
        name, ended = child.program.name, _ending(child.exit_code)
        self._deaths[name].append(now)
        pause = pause_before_restart(self._deaths[name], now=now)
        if pause is None:
            raise GaveUpError(f"{name} {ended} and died too often; stopped everything")
        self.log.say(f"{name} {ended}; starting it again in {pause:g} s")
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
            late = self._hurry or time.monotonic() > deadline
            for child in left:
                if late:
                    self.log.say(f"killing {child.program.name}")
                if late or child.exit_code is not None:
                    self._bury(child)
            self._listen()


def _ending(code: int | None) -> str:
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
