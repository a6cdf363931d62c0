"""The memory a worker's processes share: what one side writes, the other reads, and nothing else."""

import os
from uuid import UUID, uuid4

import pytest

from execution.slots import LONGEST_PROGRESS, SLOTS, Board, Slot, Why

pytestmark = pytest.mark.req("TSK-2")


@pytest.fixture
def board() -> Board:
    return Board()


def begin(slot: Slot, limit: float = 60.0) -> UUID:
    run_id = uuid4()
    slot.begin(run_id=run_id, occurrence_id=uuid4(), token=uuid4(), limit=limit, pid=os.getpid())
    return run_id


def test_the_supervisor_sees_the_attempt_from_its_beginning_to_its_end(board: Board) -> None:
    slot = board.mine()
    assert list(board.attempts()) == []
    run_id = begin(slot, limit=5)
    (facts,) = board.attempts()
    assert (facts.run_id, facts.pid, facts.serial, facts.running) == (run_id, os.getpid(), slot.serial, True)
    assert facts.limit - facts.since == pytest.approx(5)
    slot.returned()
    (facts,) = board.attempts()
    assert not facts.running, "its function is over, its result is not yet a row"
    slot.end()
    assert list(board.attempts()) == []


def test_another_process_sees_what_this_one_writes(board: Board) -> None:
    child = os.fork()
    if child == 0:
        begin(board[7])
        os._exit(0)
    os.waitpid(child, 0)
    assert [facts.slot for facts in board.attempts()] == [7]


def test_no_two_attempts_have_the_same_serial(board: Board) -> None:
    slots = [board[number] for number in range(SLOTS)]
    seen: set[int] = set()
    for _ in range(5):  # as in processes forked from one, which know nothing of each other
        for slot in slots:
            begin(slot)
            seen.add(slot.serial)
    assert len(seen) == 5 * SLOTS


def test_what_one_attempt_is_told_the_next_one_does_not_hear(board: Board) -> None:
    slot = board.mine()
    begin(slot)
    board[slot.number].tell(slot.serial, Why.CANCELED)
    board[slot.number].interrupt(slot.serial, Why.TIMEOUT)
    assert (slot.told, slot.interruption) == (Why.CANCELED, Why.TIMEOUT)
    begin(slot)
    assert (slot.told, slot.interruption) == (Why.NONE, Why.NONE)


def test_a_function_that_has_returned_is_not_interrupted(board: Board) -> None:
    slot = board.mine()
    begin(slot)
    slot.interrupt(slot.serial, Why.TIMEOUT)
    slot.returned()
    assert slot.interruption is Why.NONE


def test_progress_is_read_as_it_was_said_and_belongs_to_one_attempt(board: Board) -> None:
    slot = board.mine()
    begin(slot)
    assert slot.progress(slot.serial) is None
    slot.note({"done": 3, "of": 10})
    slot.note({"done": 4})
    assert board[slot.number].progress(slot.serial) == {"done": 4}
    assert board[slot.number].progress(slot.serial + 1) is None


def test_progress_that_does_not_fit_or_is_no_json_is_refused(board: Board) -> None:
    slot = board.mine()
    begin(slot)
    with pytest.raises(ValueError, match=f"at most {LONGEST_PROGRESS} are kept"):
        slot.note("x" * LONGEST_PROGRESS)
    with pytest.raises(TypeError):
        slot.note(object())
    slot.note("x" * (LONGEST_PROGRESS - 2))
    assert len(slot.progress(slot.serial)) == LONGEST_PROGRESS - 2


def test_a_process_keeps_its_slot_and_the_last_one_fits(board: Board) -> None:
    assert board.mine().number == board.mine().number
    begin(board[SLOTS - 1])
    board[SLOTS - 1].note("x" * 100)
    board.head(supervisor=1, stopping=True)
    assert [facts.slot for facts in board.attempts()] == [SLOTS - 1]
    assert (board.supervisor, board.stopping) == (1, True)
