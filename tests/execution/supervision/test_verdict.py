from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from punctual.conf import Settings
from punctual.execution.ending.outcome import Ending
from punctual.execution.supervision.board import Facts, StopCause
from punctual.execution.supervision.verdict import Verdict, WatchedAttempt, ending, verdict

SETTINGS = Settings(
    kill_after=timedelta(seconds=5), cancel_grace=timedelta(seconds=10), shutdown_grace=timedelta(seconds=30)
)
ID = UUID(int=1)
TIMED = WatchedAttempt(Facts(0, 4711, 1, ID, ID, ID, since=1000.0, limit=1060.0))  # one minute of timeout
CANCELED = replace(TIMED, cause=StopCause.CANCELED, since=1020.0)
STOPPING = replace(TIMED, cause=StopCause.STOPPING, since=1020.0)
LATE_STOP = replace(TIMED, cause=StopCause.STOPPING, since=1050.0)


def verdict_at(attempt: WatchedAttempt, at: float, *, alive: bool = True, killable: bool = True) -> Verdict:
    return verdict(attempt, at=at, alive=alive, killable=killable, settings=SETTINGS)


@pytest.mark.req("EXE-5")
@pytest.mark.parametrize(
    ("attempt", "interrupted_at", "killed_at"),
    [
        (TIMED, 1060.0, 1065.0),
        (CANCELED, 1030.0, 1035.0),  # cancel_grace after the cancellation
        (STOPPING, 1045.0, 1050.0),  # before and at the end of shutdown_grace
        (LATE_STOP, 1060.0, 1065.0),  # the timeout comes first
    ],
)
def test_a_function_that_does_not_stop_is_interrupted_then_killed(
    attempt: WatchedAttempt, interrupted_at: float, killed_at: float
) -> None:
    assert verdict_at(attempt, interrupted_at - 0.01) is Verdict.LEAVE
    assert verdict_at(attempt, interrupted_at) is Verdict.INTERRUPT
    assert verdict_at(replace(attempt, interrupted=True), killed_at - 0.01) is Verdict.LEAVE
    assert verdict_at(replace(attempt, interrupted=True), killed_at) is Verdict.KILL
    assert verdict_at(replace(attempt, killed=True), killed_at + 1) is Verdict.LEAVE


def test_an_attempt_that_cannot_be_killed_is_abandoned() -> None:
    assert verdict_at(TIMED, 1065, killable=False) is Verdict.ABANDON
    assert verdict_at(replace(TIMED, abandoned=True), 2000, killable=False) is Verdict.LEAVE


def test_no_limit_applies_while_a_result_is_being_written() -> None:
    reporting = replace(TIMED, facts=replace(TIMED.facts, running=False))
    assert verdict_at(reporting, 9999) is Verdict.LEAVE
    assert verdict_at(reporting, 9999, alive=False) is Verdict.GONE


@pytest.mark.req("TSK-5")
@pytest.mark.parametrize(
    ("attempt", "expected"),
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
def test_the_ending_of_a_dead_process_follows_from_what_was_done_to_it(
    attempt: WatchedAttempt, expected: Ending | None
) -> None:
    assert ending(attempt, SETTINGS) is expected
