"""Lines on standard input → processes killed and folders removed once that input closes.

The kernel closes the pipe however the test run ends: normally, by Ctrl-C, SIGTERM or kill -9. One
small process outside the run's session is therefore the only clean-up that always happens.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 5.0  # seconds for killed processes to let go of their files


class Guardian:
    """What this process must not leave behind."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches the terminal's group, and must not reach this
            text=True,
        )

    def watch(self, group: int, *, sent: signal.Signals = signal.SIGKILL) -> None:
        """Kill this process group at the end."""
        self._say(f"watch {group} {sent.value}")

    def forget(self, group: int) -> None:
        """It ended; its number may soon belong to a stranger."""
        self._say(f"forget {group} 0")

    def remove(self, folder: Path) -> None:
        self._say(f"remove {folder}")

    def close(self) -> None:
        """Clean up now, and wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


def send(group: int, number: int) -> bool:
    """Whether the group was there to receive the signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def stand_guard() -> None:
    groups: dict[int, int] = {}
    folders: list[str] = []
    for line in sys.stdin:
        verb, _, rest = line.strip().partition(" ")
        if verb == "remove":
            folders.append(rest)
            continue
        group, number = (int(word) for word in rest.split())
        if verb == "watch":
            groups[group] = number
        else:
            groups.pop(group, None)

    deadline = time.monotonic() + PATIENCE
    alive = [group for group, number in groups.items() if send(group, number)]
    while alive and time.monotonic() < deadline:
        time.sleep(0.02)
        alive = [group for group in alive if send(group, 0)]
    for group in alive:
        send(group, signal.SIGKILL)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    # Only the end of the input ends the guard; a polite kill of everything in sight does not.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with contextlib.suppress(ValueError):
            signal.signal(ignored, signal.SIG_IGN)
    stand_guard()
