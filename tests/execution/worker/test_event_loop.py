"""Coroutines of all attempts share one event loop per process, and each is stopped by cancellation."""

import asyncio
import os
import signal
from collections.abc import Iterator
from uuid import uuid4

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from punctual.execution.supervision import interrupt
from punctual.execution.supervision.board import INTERRUPT_SIGNAL, Slot, StopCause, board
from punctual.execution.worker.event_loop import run_to_end
from punctual.jobs.errors import Cancel, HandBack


@pytest.fixture
def slot() -> Iterator[Slot]:
    """The slot of this process, as it is while a function runs."""
    previous = signal.getsignal(INTERRUPT_SIGNAL)
    interrupt.install()
    slot = board.own_slot()
    slot.begin(run_id=uuid4(), occurrence_id=uuid4(), token=uuid4(), limit=60, pid=os.getpid())
    yield slot
    slot.end()
    signal.signal(INTERRUPT_SIGNAL, previous)


async def own_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_all_attempts_run_on_the_same_loop_and_a_closed_one_is_replaced() -> None:
    first = run_to_end(own_loop())
    assert run_to_end(own_loop()) is first
    first.close()
    assert run_to_end(own_loop()) is not first


def test_a_client_kept_from_one_attempt_works_in_the_next() -> None:
    kept: list[asyncio.Future[int]] = []

    async def make() -> None:
        kept.append(asyncio.get_running_loop().create_future())

    async def use() -> int:
        kept[0].set_result(7)
        return await kept[0]

    run_to_end(make())
    assert run_to_end(use()) == 7


@pytest.mark.req("EXE-5")
@pytest.mark.parametrize(
    ("why", "expected"),
    [
        (StopCause.TIMEOUT, SoftTimeLimitExceeded),
        (StopCause.CANCELED, Cancel),
        (StopCause.STOPPING, HandBack),
    ],
)
def test_an_interrupted_coroutine_may_clean_up_and_the_loop_lives_on(
    slot: Slot, why: StopCause, expected: type[Exception]
) -> None:
    cleaned = []

    async def sleep() -> None:
        slot.interrupt(slot.serial, why)
        os.kill(os.getpid(), INTERRUPT_SIGNAL)
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0)
            cleaned.append(why)

    loop = run_to_end(own_loop())
    with pytest.raises(expected):
        run_to_end(sleep())
    assert cleaned == [why]
    assert run_to_end(own_loop()) is loop


def test_a_coroutine_that_cancels_itself_ends_as_canceled_error(slot: Slot) -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_to_end(give_up())


@pytest.mark.req("EXE-5")
def test_a_plain_function_is_interrupted_where_it_is(slot: Slot) -> None:
    slot.interrupt(slot.serial, StopCause.TIMEOUT)
    with pytest.raises(SoftTimeLimitExceeded):
        os.kill(os.getpid(), INTERRUPT_SIGNAL)


def test_a_late_signal_interrupts_nothing(slot: Slot) -> None:
    slot.interrupt(slot.serial, StopCause.TIMEOUT)
    slot.returned()
    os.kill(os.getpid(), INTERRUPT_SIGNAL)
    slot.begin(run_id=uuid4(), occurrence_id=uuid4(), token=uuid4(), limit=60, pid=os.getpid())
    os.kill(os.getpid(), INTERRUPT_SIGNAL)
