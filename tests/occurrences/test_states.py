"""The tables of moves equal the requirements, written here a second time."""

from collections.abc import Mapping
from typing import TypeVar

import pytest

from punctual.occurrences.states import (
    ATTEMPT_FINAL,
    OCCURRENCE_ACTIVE,
    OCCURRENCE_FINAL,
    OCCURRENCE_MOVES,
    OCCURRENCE_OPEN,
    RUN_FINAL,
    RUN_HELD,
    RUN_MOVES,
    RUN_OPEN,
    AttemptState,
    OccurrenceState,
    RunState,
    occurrence_sources,
    run_sources,
)

State = TypeVar("State", OccurrenceState, RunState)

RUN_CHART = """
    scheduled → claimed canceled
    claimed → running scheduled canceled
    running → success failed retry scheduled canceled
    retry → scheduled canceled
    failed → dlq retry scheduled canceled
    dlq → scheduled
"""
OCCURRENCE_CHART = """
    pending → queued dispatched canceled skipped missed
    queued → dispatched canceled skipped missed
    dispatched → running completed completed_with_errors failed canceled failed_stale
    running → completed completed_with_errors failed canceled failed_stale
"""


def arrows(chart: str) -> set[tuple[str, str]]:
    lines = (line.split("→") for line in chart.strip().splitlines())
    return {(source.strip(), target) for source, targets in lines for target in targets.split()}


@pytest.mark.req("TSK-1")
def test_a_run_moves_along_the_documented_arrows_and_no_others() -> None:
    assert {(a.value, b.value) for a, row in RUN_MOVES.items() for b in row} == arrows(RUN_CHART)


@pytest.mark.req("OCC-3")
def test_an_occurrence_moves_along_the_documented_arrows_and_no_others() -> None:
    moves = {(a.value, b.value) for a, row in OCCURRENCE_MOVES.items() for b in row}
    assert moves == arrows(OCCURRENCE_CHART)


@pytest.mark.req("OCC-3")
def test_final_occurrence_states_have_no_way_out_and_open_ones_do() -> None:
    assert {state for state in OccurrenceState if state not in OCCURRENCE_MOVES} == set(OCCURRENCE_FINAL)
    assert set(OCCURRENCE_OPEN) | set(OCCURRENCE_FINAL) == set(OccurrenceState)
    assert set(OCCURRENCE_ACTIVE) < set(OCCURRENCE_OPEN)


@pytest.mark.req("TSK-1")
def test_only_a_dead_letter_leaves_a_final_run_state() -> None:
    assert {state for state in RUN_FINAL if state in RUN_MOVES} == {RunState.DLQ}
    assert set(RUN_OPEN) | set(RUN_FINAL) == set(RunState)
    assert set(RUN_HELD) < set(RUN_OPEN)


@pytest.mark.req("TSK-1")
def test_every_unfinished_run_can_be_canceled() -> None:
    assert set(run_sources(RunState.CANCELED)) == set(RUN_OPEN)


@pytest.mark.req("OCC-3")
def test_every_state_can_be_reached_from_the_first() -> None:
    assert reachable(OCCURRENCE_MOVES, OccurrenceState.PENDING) == set(OccurrenceState)
    assert reachable(RUN_MOVES, RunState.SCHEDULED) == set(RunState)


@pytest.mark.req("OCC-3")
@pytest.mark.parametrize("target", OccurrenceState)
def test_the_guard_of_a_move_is_the_table_read_backwards(target: OccurrenceState) -> None:
    sources = occurrence_sources(target)
    assert set(sources) == {state for state in OccurrenceState if target in OCCURRENCE_MOVES.get(state, ())}


def test_an_attempt_is_running_or_over() -> None:
    assert {AttemptState.RUNNING, *ATTEMPT_FINAL} == set(AttemptState)
    assert AttemptState.RUNNING not in ATTEMPT_FINAL


def reachable(moves: Mapping[State, frozenset[State]], start: State) -> set[State]:
    found, frontier = {start}, [start]
    while frontier:
        new = moves.get(frontier.pop(), frozenset()) - found
        found |= new
        frontier += new
    return found
