"""The progress bar of commands."""

import io

import pytest

from punctual.commands.progress import Progress

pytestmark = pytest.mark.req("JOB-3")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_written_to_a_terminal_only() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        progress = Progress(stream, 2000, "applying")
        progress(1000)
        progress(1000)
    assert pipe.getvalue() == ""
    half, full = f"[{'#' * 15}{'.' * 15}] 1,000/2,000", f"[{'#' * 30}] 2,000/2,000"
    assert terminal.getvalue() == f"\rapplying {half}\rapplying {full}\n"


def test_progress_ends_its_line_once_with_less_and_with_more_than_expected() -> None:
    less, more = Terminal(), Terminal()
    for stream, count in (less, 1), (more, 3):
        progress = Progress(stream, 4, "applying")
        progress(count)
        progress(count)
        progress(0)
        progress.end()
    assert less.getvalue().endswith("2/4\n")
    assert more.getvalue().endswith("6/4\n")
    assert less.getvalue().count("\n") == more.getvalue().count("\n") == 1


def test_progress_of_zero_steps_writes_nothing() -> None:
    terminal = Terminal()
    Progress(terminal, 0, "applying")(0)
    assert terminal.getvalue() == ""
