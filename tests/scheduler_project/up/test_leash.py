import subprocess
import sys
import time
from pathlib import Path

import pytest

from scheduler_project.up.child import LEASH

DEADLINE = 20.0
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's promise")


SUPERVISOR = f"""
import os, subprocess, sys
program = "import signal; print('here', flush=True); signal.pause()"
argv = [*{LEASH!r}, str(os.getpid()), sys.executable, "-c", program]
process = subprocess.Popen(argv)
print(process.pid, flush=True)
process.wait()
"""


@linux
@pytest.mark.req("OPS-1")
def test_a_child_ends_when_its_supervisor_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR], stdout=subprocess.PIPE, text=True
    ) as supervisor:
        try:
            assert supervisor.stdout is not None
            lines = {supervisor.stdout.readline().strip() for _ in range(2)}
            [child] = lines - {"here"}
        finally:
            supervisor.kill()
    deadline = time.monotonic() + DEADLINE
    while Path(f"/proc/{child}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@linux
def test_a_child_of_a_supervisor_that_is_already_gone_does_not_start() -> None:
    no_such_parent = "0"
    done = subprocess.run(
        [*LEASH, no_such_parent, sys.executable, "-c", "print('started')"],
        capture_output=True,
        check=True,
    )
    assert done.stdout == b""
