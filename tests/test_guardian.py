"""The servers of a test run do not outlive it, however it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RUN = """
import signal, sys
from pathlib import Path
from tests.guardian import Guardian
from tests.servers import start_valkey
signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background inherits it ignored
guardian = Guardian()
folder = Path(sys.argv[1])
guardian.remove(folder)
print(start_valkey(folder, guardian).process.pid, flush=True)
signal.pause()
"""


def wait_until(done: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not done() and time.monotonic() < deadline:
        time.sleep(0.02)
    return done()


def gone(pid: int) -> bool:
    """Ended; a zombie not yet collected by its parent counts as ended."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip()[:1] in {"", "Z"}


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_server_and_its_folder_go_with_the_run_that_started_them(
    tmp_path: Path, end: signal.Signals
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, folder],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert run.stdout is not None
    server = int(run.stdout.readline())
    assert not gone(server)

    os.kill(run.pid, end)
    run.wait(timeout=20)
    run.stdout.close()
    assert wait_until(lambda: gone(server))
    assert wait_until(lambda: not folder.exists())
