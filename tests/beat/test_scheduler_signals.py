import os
import signal
from types import FrameType

import pytest

from punctual.beat.celery_scheduler import defer_stop_signals


@pytest.mark.req("EXE-9")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_during_a_tick_is_delivered_after_it(number: signal.Signals) -> None:
    events: list[str] = []

    def handler(_number: int, _frame: FrameType | None) -> None:
        events.append("stopped")

    before = signal.signal(number, handler)
    try:
        with defer_stop_signals():
            os.kill(os.getpid(), number)
            events.append("tick done")
        assert events == ["tick done", "stopped"]
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)


def failing_tick() -> None:
    with defer_stop_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        raise ValueError("tick")


def test_a_stop_signal_is_delivered_after_a_tick_that_fails() -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: received.append(number))
    try:
        with pytest.raises(ValueError, match="tick"):
            failing_tick()
        assert received == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
