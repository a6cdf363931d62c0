"""Kill the servers of a test run and remove its folders when the run ends.

The clean-up is done by a small process outside the session of the run. It reads what to clean up from a pipe
and starts when the pipe closes, which the kernel does however the run ends: normally, by Ctrl-C, SIGTERM or
kill -9.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

EXIT_TIMEOUT = 5.0  # seconds until a stopped process is killed


class Guardian:
    """The client: register process groups and folders for the clean-up."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C, which the terminal sends to its group, must not reach it
            text=True,
        )

    def watch(self, group: int, *, sent: signal.Signals = signal.SIGKILL) -> None:
        """Kill this process group at the end."""
        self._send(f"watch {group} {sent.value}")

    def forget(self, group: int) -> None:
        """The group has ended; the kernel may reuse its number."""
        self._send(f"forget {group} 0")

    def remove(self, folder: Path) -> None:
        self._send(f"remove {folder}")

    def close(self) -> None:
        """Clean up now, and wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


def send(group: int, number: int) -> bool:
    """Return whether the group received the signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def clean_up_at_end() -> None:
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

    deadline = time.monotonic() + EXIT_TIMEOUT
    alive = [group for group, number in groups.items() if send(group, number)]
    while alive and time.monotonic() < deadline:
        time.sleep(0.02)
        alive = [group for group in alive if send(group, 0)]
    for group in alive:
        send(group, signal.SIGKILL)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    # Only the end of the input starts the clean-up; signals to all processes must not end this one.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with contextlib.suppress(ValueError):
            signal.signal(ignored, signal.SIG_IGN)
    clean_up_at_end()
