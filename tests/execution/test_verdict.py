from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from execution.limits import Limits
from execution.outcome import Ending
from execution.slots import Facts, Why
from execution.verdict import Verdict, Watched, ending, verdict

LIMITS = Limits(
    kill_after=timedelta(seconds=5), cancel_grace=timedelta(seconds=10), shutdown_grace=timedelta(seconds=30)
)
ID = UUID(int=1)
TIMED = Watched(Facts(0, 4711, 1, ID, ID, ID, since=1000.0, limit=1060.0))  # a minute to go
CANCELED = replace(TIMED, why=Why.CANCELED, since=1020.0)
STOPPING = replace(TIMED, why=Why.STOPPING, since=1020.0)
LATE_STOP = replace(TIMED, why=Why.STOPPING, since=1050.0)


def judged(watched: Watched, at: float, *, alive: bool = True, killable: bool = True) -> Verdict:
    return verdict(watched, at=at, alive=alive, killable=killable, limits=LIMITS)


@pytest.mark.req("EXE-5")
@pytest.mark.parametrize(
    ("watched", "interrupted_at", "killed_at"),
    [
        (TIMED, 1060.0, 1065.0),
        (CANCELED, 1030.0, 1035.0),  # after the grace of a canceled one
        (STOPPING, 1045.0, 1050.0),  # before and at the end of the grace of a stopping worker
        (LATE_STOP, 1060.0, 1065.0),  # its timeout comes first
    ],
)
def test_a_function_that_goes_on_is_interrupted_then_killed(
    watched: Watched, interrupted_at: float, killed_at: float
) -> None:
    assert judged(watched, interrupted_at - 0.01) is Verdict.LEAVE
    assert judged(watched, interrupted_at) is Verdict.INTERRUPT
    assert judged(replace(watched, interrupted=True), killed_at - 0.01) is Verdict.LEAVE
    assert judged(replace(watched, interrupted=True), killed_at) is Verdict.KILL
    assert judged(replace(watched, killed=True), killed_at + 1) is Verdict.LEAVE


def test_what_cannot_be_killed_is_given_up() -> None:
    assert judged(TIMED, 1065, killable=False) is Verdict.ABANDON
    assert judged(replace(TIMED, abandoned=True), 2000, killable=False) is Verdict.LEAVE


def test_a_result_that_is_being_written_is_never_too_late() -> None:
    reporting = replace(TIMED, facts=replace(TIMED.facts, running=False))
    assert judged(reporting, 9999) is Verdict.LEAVE
    assert judged(reporting, 9999, alive=False) is Verdict.GONE


@pytest.mark.req("TSK-5")
@pytest.mark.parametrize(
    ("watched", "expected"),
    [
        (TIMED, Ending.LOST),
        (replace(TIMED, killed=True), Ending.TIMEOUT),
        (replace(TIMED, abandoned=True), Ending.TIMEOUT),
        (CANCELED, None),
        (replace(CANCELED, killed=True), None),
        (STOPPING, Ending.RELEASED),
        (replace(STOPPING, killed=True), Ending.RELEASED),
        (replace(LATE_STOP, killed=True), Ending.TIMEOUT),
    ],
)
def test_an_attempt_without_a_process_ends_as_what_was_done_to_it(
    watched: Watched, expected: Ending | None
) -> None:
    assert ending(watched, LIMITS) is expected
