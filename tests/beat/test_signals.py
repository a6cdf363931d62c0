import os
import signal
from types import FrameType

import pytest

from beat.signals import deferred


@pytest.mark.req("EXE-9")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_a_tick_is_heard_after_it(number: signal.Signals) -> None:
    story: list[str] = []

    def handler(_number: int, _frame: FrameType | None) -> None:
        story.append("stopped")

    before = signal.signal(number, handler)
    try:
        with deferred():
            os.kill(os.getpid(), number)
            story.append("tick done")
        assert story == ["tick done", "stopped"]
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)


def failing_tick() -> None:
    with deferred():
        os.kill(os.getpid(), signal.SIGTERM)
        raise ValueError("tick")


def test_a_tick_that_fails_still_gives_the_signal_on() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: heard.append(number))
    try:
        with pytest.raises(ValueError, match="tick"):
            failing_tick()
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
