"""Coroutines of all attempts share one event loop per process, and each ends by its own cancellation."""

import asyncio
import os
import signal
from collections.abc import Iterator
from uuid import uuid4

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from execution import interrupt
from execution.loop import run_to_end
from execution.slots import INTERRUPT_SIGNAL, Slot, Why, board
from jobs.errors import Cancel, HandBack


@pytest.fixture
def slot() -> Iterator[Slot]:
    """This process's own, as a worker's process has it while a function runs."""
    previous = signal.getsignal(INTERRUPT_SIGNAL)
    interrupt.install()
    slot = board.mine()
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
    [(Why.TIMEOUT, SoftTimeLimitExceeded), (Why.CANCELED, Cancel), (Why.STOPPING, HandBack)],
)
def test_an_interrupted_coroutine_may_clean_up_and_the_loop_lives_on(
    slot: Slot, why: Why, expected: type[Exception]
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


def test_a_cancellation_of_its_own_making_stays_one(slot: Slot) -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_to_end(give_up())


@pytest.mark.req("EXE-5")
def test_a_plain_function_is_interrupted_where_it_is(slot: Slot) -> None:
    slot.interrupt(slot.serial, Why.TIMEOUT)
    with pytest.raises(SoftTimeLimitExceeded):
        os.kill(os.getpid(), INTERRUPT_SIGNAL)


def test_a_signal_that_comes_late_disturbs_nobody(slot: Slot) -> None:
    slot.interrupt(slot.serial, Why.TIMEOUT)
    slot.returned()
    os.kill(os.getpid(), INTERRUPT_SIGNAL)
    slot.begin(run_id=uuid4(), occurrence_id=uuid4(), token=uuid4(), limit=60, pid=os.getpid())
    os.kill(os.getpid(), INTERRUPT_SIGNAL)
