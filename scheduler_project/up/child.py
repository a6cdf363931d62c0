"""Run a program as a child process in a process group of its own, and read its output in lines.

A child has its own session: Ctrl-C in the terminal reaches only the supervisor, which then stops each child
once and in order. When the supervisor itself is killed, the kernel ends the children (see `leash`).
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

MAX_LINE = 64 * 1024  # bytes
LEASH = (sys.executable, "-I", "-S", str(Path(__file__).with_name("leash.py")))


@dataclass(frozen=True)
class Program:
    """What to run. The next program starts when `ready` returns True."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)  # added to the environment of all programs
    ready: Callable[[], bool] | None = None
    foundation: bool = False  # the other programs need it: it stops after them
    umask: int = -1  # of the files it creates; -1: that of the supervisor


class Child:
    def __init__(self, program: Program, *, env: Mapping[str, str]) -> None:
        self.program = program
        self.output_ended = False
        self._rest = b""
        self.output, inlet = os.pipe()  # a selector waits on the read end
        self._process = subprocess.Popen(  # noqa: S603  the programs are ours
            (*LEASH, str(os.getpid()), *program.argv),
            env={**env, **program.env},
            stdin=subprocess.DEVNULL,
            stdout=inlet,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=program.umask,
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
        """Return the complete lines that arrived since the last call; never blocks."""
        self._read()
        *lines, self._rest = self._rest.split(b"\n")
        if self._rest and (self.output_ended or len(self._rest) > MAX_LINE):
            lines, self._rest = [*lines, self._rest], b""
        return [line.decode(errors="replace").rstrip() for line in lines]

    def _read(self) -> bool:
        """Read one chunk only: a child that writes without pause must not starve the others."""
        try:
            chunk = os.read(self.output, MAX_LINE)
        except BlockingIOError:
            return False
        self._rest += chunk
        self.output_ended = not chunk
        return not self.output_ended

    def terminate(self) -> None:
        # Only the leader: Celery and gunicorn stop their own processes in the right order.
        self._process.terminate()

    def end(self) -> list[str]:
        """Kill the whole process group, also after its leader exited; return the last lines."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        while self._read():
            pass
        last_lines = self.read_lines()
        os.close(self.output)
        return last_lines
