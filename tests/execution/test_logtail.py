import asyncio
import logging
from threading import Thread

import pytest

from execution.logtail import LONGEST_LINE, MOST_LINES, Lines, captured
from execution.slots import LONGEST_LOG, board

pytestmark = pytest.mark.req("EXE-6")

logger = logging.getLogger("punctual.task.nightly.load")


@pytest.fixture(autouse=True)
def level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="punctual.task")


def test_what_a_function_logs_is_kept_with_level_and_traceback() -> None:
    with captured() as lines:
        logger.info("loaded %d rows", 17)
        logger.debug("not shown, so not kept")
        logger.error("bad input", exc_info=ValueError("line 7"))
    first, second, *rest = lines.text().splitlines()
    assert first.endswith("INFO loaded 17 rows")
    assert second.endswith("ERROR bad input")
    assert rest[-1] == "ValueError: line 7"


def test_nothing_is_kept_of_others_and_nothing_when_nothing_is_logged() -> None:
    logger.info("before")
    with captured() as lines:
        logging.getLogger("django.request").error("not a task's")
        thread = Thread(target=logger.info, args=["of a thread of its own"])
        thread.start()
        thread.join()
    logger.info("after")
    assert lines.text() == ""


@pytest.mark.req("OPS-7")
def test_the_password_of_an_address_is_not_kept() -> None:
    with captured() as lines:
        logger.info("connecting to %s", "redis://user:word@host/0")
    assert "word" not in lines.text()
    assert "@host/0" in lines.text()


def test_a_coroutine_s_lines_are_its_own() -> None:
    async def speak(name: str) -> None:
        await asyncio.sleep(0)
        logger.info(name)

    with captured() as lines:
        asyncio.run(speak("inner"))
    assert lines.text().endswith("INFO inner")


def test_only_the_newest_lines_are_kept_within_bounds() -> None:
    lines = Lines(dict)
    for number in range(MOST_LINES * 2):
        lines.add(f"line {number}")
    assert lines.text().splitlines()[0] == f"line {MOST_LINES}"
    lines.add("x" * LONGEST_LINE * 3)
    assert lines.text().splitlines()[-1] == "x" * LONGEST_LINE
    for _ in range(MOST_LINES):
        lines.add("é" * LONGEST_LINE)
    text = lines.text()
    assert len(text.encode()) <= LONGEST_LOG
    assert set(text.splitlines()) == {"é" * LONGEST_LINE}, "whole lines only"


def test_a_log_call_that_fails_does_not_fail_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    with captured() as lines:
        logger.info("%d", "not a number")
        logger.info("but this one")
    assert lines.text().endswith("INFO but this one")


def test_the_lines_of_a_process_that_is_killed_can_be_read_in_its_slot() -> None:
    slot = board.mine()
    with captured():
        logger.info("last words")
    assert board[slot.number].logged(slot.serial).endswith("INFO last words")
