"""A program → one running process on a leash: its own process group, its output in lines.

A child lives in a session of its own, so a Ctrl-C in the terminal reaches the supervisor alone,
which then stops each child once and in order. The price is that the terminal would not end the
children of a supervisor that was killed; the kernel does (see `leash`).
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

LONGEST_LINE = 64 * 1024
LEASH = (sys.executable, "-I", "-S", str(Path(__file__).with_name("leash.py")))


@dataclass(frozen=True)
class Program:
    """What to run; `ready` is asked before the next program starts."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)  # on top of what all share
    ready: Callable[[], bool] | None = None
    foundation: bool = False  # the others need it: it stops after them


class Child:
    def __init__(self, program: Program, *, env: Mapping[str, str]) -> None:
        self.program = program
        self.silent = False  # its output has ended
        self._rest = b""
        self.output, inlet = os.pipe()  # the read end is what a selector waits on
        self._process = subprocess.Popen(  # noqa: S603  the programs are ours
            (*LEASH, str(os.getpid()), *program.argv),
            env={**env, **program.env},
            stdin=subprocess.DEVNULL,
            stdout=inlet,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        os.close(inlet)
        os.set_blocking(self.output, False)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def read_lines(self) -> list[str]:
        """Whole lines that arrived since the last call; never waits."""
        self._read()
        *lines, self._rest = self._rest.split(b"\n")
        if self._rest and (self.silent or len(self._rest) > LONGEST_LINE):
            lines, self._rest = [*lines, self._rest], b""
        return [line.decode(errors="replace").rstrip() for line in lines]

    def _read(self) -> bool:
        """Take one chunk: a child that never pauses must not keep the others waiting."""
        try:
            chunk = os.read(self.output, LONGEST_LINE)
        except BlockingIOError:
            return False
        self._rest += chunk
        self.silent = not chunk
        return not self.silent

    def terminate(self) -> None:
        # Only the leader: Celery and gunicorn tell their own processes, in the order they need.
        self._process.terminate()

    def end(self) -> list[str]:
        """Kill the whole group, also what a dead leader left behind; its last lines."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        while self._read():
            pass
        last_lines = self.read_lines()
        os.close(self.output)
        return last_lines
