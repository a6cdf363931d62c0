"""One side of the shared memory reads what the other side wrote for it, and nothing else."""

import os
from uuid import UUID, uuid4

import pytest

from punctual.execution.supervision.board import MAX_PROGRESS_BYTES, SLOTS, Board, Slot, StopCause

pytestmark = pytest.mark.req("TSK-2")


@pytest.fixture
def board() -> Board:
    return Board()


def begin(slot: Slot, limit: float = 60.0) -> UUID:
    run_id = uuid4()
    slot.begin(run_id=run_id, occurrence_id=uuid4(), token=uuid4(), limit=limit, pid=os.getpid())
    return run_id


def test_the_supervisor_sees_the_attempt_from_its_beginning_to_its_end(board: Board) -> None:
    slot = board.own_slot()
    assert list(board.attempts()) == []
    run_id = begin(slot, limit=5)
    (facts,) = board.attempts()
    assert (facts.run_id, facts.pid, facts.serial, facts.running) == (run_id, os.getpid(), slot.serial, True)
    assert facts.limit - facts.since == pytest.approx(5)
    slot.returned()
    (facts,) = board.attempts()
    assert not facts.running, "the function has returned, its result is not a row yet"
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
    for _ in range(5):  # as in forked processes, which share no counter
        for slot in slots:
            begin(slot)
            seen.add(slot.serial)
    assert len(seen) == 5 * SLOTS


def test_a_notice_for_one_attempt_does_not_reach_the_next(board: Board) -> None:
    slot = board.own_slot()
    begin(slot)
    board[slot.number].notify(slot.serial, StopCause.CANCELED)
    board[slot.number].interrupt(slot.serial, StopCause.TIMEOUT)
    assert (slot.notice, slot.interruption) == (StopCause.CANCELED, StopCause.TIMEOUT)
    begin(slot)
    assert (slot.notice, slot.interruption) == (StopCause.NONE, StopCause.NONE)


def test_a_function_that_has_returned_is_not_interrupted(board: Board) -> None:
    slot = board.own_slot()
    begin(slot)
    slot.interrupt(slot.serial, StopCause.TIMEOUT)
    slot.returned()
    assert slot.interruption is StopCause.NONE


def test_progress_is_read_as_written_and_belongs_to_one_attempt(board: Board) -> None:
    slot = board.own_slot()
    begin(slot)
    assert slot.progress(slot.serial) is None
    slot.note({"done": 3, "of": 10})
    slot.note({"done": 4})
    assert board[slot.number].progress(slot.serial) == {"done": 4}
    assert board[slot.number].progress(slot.serial + 1) is None


def test_progress_that_does_not_fit_or_is_no_json_is_refused(board: Board) -> None:
    slot = board.own_slot()
    begin(slot)
    with pytest.raises(ValueError, match=f"at most {MAX_PROGRESS_BYTES} are kept"):
        slot.note("x" * MAX_PROGRESS_BYTES)
    with pytest.raises(TypeError):
        slot.note(object())
    slot.note("x" * (MAX_PROGRESS_BYTES - 2))
    assert len(slot.progress(slot.serial)) == MAX_PROGRESS_BYTES - 2


def test_a_process_keeps_its_slot_and_the_last_one_fits(board: Board) -> None:
    assert board.own_slot().number == board.own_slot().number
    begin(board[SLOTS - 1])
    board[SLOTS - 1].note("x" * 100)
    board.head(supervisor=1, stopping=True)
    assert [facts.slot for facts in board.attempts()] == [SLOTS - 1]
    assert (board.supervisor, board.stopping) == (1, True)
