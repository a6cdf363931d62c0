import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from scheduler_project.up.child import Child, Program

DEADLINE = 20.0
Start = Callable[[str], Child]


def lines_until(child: Child, done: Callable[[list[str]], bool]) -> list[str]:
    """What it printed, read as it comes, until `done` or the end of its output."""
    lines: list[str] = []
    deadline = time.monotonic() + DEADLINE
    with selectors.DefaultSelector() as selector:
        selector.register(child.output, selectors.EVENT_READ)
        while not child.output_ended and not done(lines):
            assert selector.select(deadline - time.monotonic()), f"silent for too long: {lines}"
            lines += child.read_lines()
    return lines


@pytest.fixture
def start() -> Iterator[Start]:
    children: list[Child] = []

    def start(code: str) -> Child:
        child = Child(Program("probe", (sys.executable, "-c", code)), env=dict(os.environ))
        children.append(child)
        return child

    yield start
    for child in children:
        child.end()


def gone(pid: int) -> bool:
    """No such process, or only its entry waiting to be collected."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_output_comes_in_lines_and_the_last_needs_no_newline(start: Start) -> None:
    child = start("import sys; print('one'); print('two', file=sys.stderr); print('end', end='')")
    assert sorted(lines_until(child, lambda _: False)) == ["end", "one", "two"]


def test_bytes_that_are_not_text_are_replaced(start: Start) -> None:
    child = start(r"import os; os.write(1, b'caf\xe9\n')")
    assert lines_until(child, bool) == ["caf\N{REPLACEMENT CHARACTER}"]


def test_a_child_leads_its_own_session(start: Start) -> None:
    child = start("import os; print(os.getsid(0) == os.getpid())")
    assert lines_until(child, bool) == ["True"]


def test_ending_a_child_ends_what_it_started() -> None:
    waits = "import signal; signal.pause()"
    code = (
        "import signal, subprocess, sys\n"
        f"print(subprocess.Popen([sys.executable, '-c', {waits!r}]).pid, flush=True)\n"
        "signal.pause()"
    )
    child = Child(Program("probe", (sys.executable, "-c", code)), env=dict(os.environ))
    try:
        [grandchild] = [int(line) for line in lines_until(child, bool)]
        assert not gone(grandchild)
    finally:
        child.end()
    try:
        deadline = time.monotonic() + DEADLINE
        while not gone(grandchild):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        with suppress(ProcessLookupError):
            os.kill(grandchild, signal.SIGKILL)


def test_a_program_that_cannot_be_executed_is_a_child_that_exited() -> None:
    child = Child(Program("probe", ("/nowhere/at/all",)), env={})
    assert "FileNotFoundError" in lines_until(child, lambda _: False)[-1]
    child.end()
    assert child.exit_code == 1
