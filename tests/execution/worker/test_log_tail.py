import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from punctual.execution.supervision.board import MAX_LOG_BYTES, board
from punctual.execution.worker.log_tail import MAX_LINE_LENGTH, MAX_LINES, Ids, LogLines, current_lines

pytestmark = pytest.mark.req("EXE-6")

logger = logging.getLogger("punctual.task.nightly.load")


@contextmanager
def capture_log(read_ids: Callable[[], Ids] = dict) -> Iterator[LogLines]:
    """Keep what is logged, as around a function's call."""
    lines = LogLines(read_ids)
    outer = current_lines.set(lines)
    try:
        yield lines
    finally:
        current_lines.reset(outer)


@pytest.fixture(autouse=True)
def level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="punctual.task")


def test_logged_lines_are_kept_with_level_and_traceback() -> None:
    with capture_log() as lines:
        logger.info("loaded %d rows", 17)
        logger.debug("not shown, so not kept")
        logger.error("bad input", exc_info=ValueError("line 7"))
    first, second, *rest = lines.text().splitlines()
    assert first.endswith("INFO loaded 17 rows")
    assert second.endswith("ERROR bad input")
    assert rest[-1] == "ValueError: line 7"


def test_other_loggers_are_not_kept_and_no_lines_give_an_empty_text() -> None:
    logger.info("before")
    with capture_log() as lines:
        logging.getLogger("django.request").error("not a task's")
        thread = Thread(target=logger.info, args=["of a thread of its own"])
        thread.start()
        thread.join()
    logger.info("after")
    assert lines.text() == ""


@pytest.mark.req("OPS-7")
def test_the_password_of_an_address_is_not_kept() -> None:
    with capture_log() as lines:
        logger.info("connecting to %s", "redis://user:word@host/0")
    assert "word" not in lines.text()
    assert "@host/0" in lines.text()


def test_a_coroutine_s_lines_are_its_own() -> None:
    async def speak(name: str) -> None:
        await asyncio.sleep(0)
        logger.info(name)

    with capture_log() as lines:
        asyncio.run(speak("inner"))
    assert lines.text().endswith("INFO inner")


def test_only_the_newest_lines_are_kept_within_bounds() -> None:
    lines = LogLines(dict)
    for number in range(MAX_LINES * 2):
        lines.add(f"line {number}")
    assert lines.text().splitlines()[0] == f"line {MAX_LINES}"
    lines.add("x" * MAX_LINE_LENGTH * 3)
    assert lines.text().splitlines()[-1] == "x" * MAX_LINE_LENGTH
    for _ in range(MAX_LINES):
        lines.add("é" * MAX_LINE_LENGTH)
    text = lines.text()
    assert len(text.encode()) <= MAX_LOG_BYTES
    assert set(text.splitlines()) == {"é" * MAX_LINE_LENGTH}, "whole lines only"


def test_a_log_call_that_fails_does_not_fail_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    with capture_log() as lines:
        logger.info("%d", "not a number")
        logger.info("but this one")
    assert lines.text().endswith("INFO but this one")


def test_the_lines_of_a_process_that_is_killed_can_be_read_in_its_slot() -> None:
    slot = board.own_slot()
    with capture_log():
        logger.info("last words")
    assert board[slot.number].logged(slot.serial).endswith("INFO last words")
