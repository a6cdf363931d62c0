from random import Random
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.execution.ending.steps import Step, next_step
from punctual.jobs.config.choices import FailureStrategy
from punctual.occurrences.engines.contract import RunFacts
from punctual.occurrences.states import OCCURRENCE_ACTIVE, OCCURRENCE_MOVES, OccurrenceState, RunState

FAIL_FAST, CONTINUE = FailureStrategy.FAIL_FAST, FailureStrategy.CONTINUE
OVER = (RunState.SUCCESS, RunState.DLQ, RunState.CANCELED)
OCCURRENCE = uuid4()
HELD = "held back"  # waits for its predecessors
FIRST_FAILED = "a task before or beside it failed: step 0"


def facts(*runs: tuple[str, FailureStrategy]) -> list[RunFacts]:
    return [
        RunFacts(
            id=UUID(int=position),
            occurrence_id=OCCURRENCE,
            task=f"step {position}",
            position=position,
            state=RunState.SCHEDULED if state == HELD else RunState(state),
            reason="",
            policy={"failure_strategy": strategy.value},
            attempts_made=0,
            started_at=None,
            finished_at=None,
            error="",
            held_back=state == HELD,
        )
        for position, (state, strategy) in enumerate(runs)
    ]


def step(*states: str, strategy: FailureStrategy = FAIL_FAST) -> Step:
    return next_step(facts(*((state, strategy) for state in states)))


def ids(*positions: int) -> tuple[UUID, ...]:
    return tuple(UUID(int=position) for position in positions)


@pytest.mark.req("EXE-1")
@pytest.mark.parametrize("state", ["scheduled", "claimed", "running"])
def test_while_a_run_is_under_way_its_successors_wait(state: str) -> None:
    assert step(state, HELD, HELD) == Step()
    assert step("success", state, HELD) == Step()
    assert step(state, "retry") == Step(), "the other run needs the slot"


@pytest.mark.req("LIM-4")
def test_while_all_that_is_left_waits_the_slot_is_not_needed() -> None:
    assert step("retry", HELD, HELD) == step("success", "retry") == step("retry", "retry") == Step(rest=True)
    assert next_step([facts(("scheduled", FAIL_FAST))[0]._replace(parked=True)]) == Step(rest=True)


@pytest.mark.req("EXE-1")
def test_a_sequence_releases_one_successor_at_a_time_in_order() -> None:
    assert step("success", HELD, HELD) == Step(release=ids(1))
    runs = facts(("success", FAIL_FAST), (HELD, FAIL_FAST), (HELD, FAIL_FAST))
    assert next_step(runs[::-1]) == Step(release=ids(1)), "position decides, not the order of the rows"


@pytest.mark.req("EXE-3")
@pytest.mark.parametrize(
    ("states", "outcome"),
    [
        (["success", "success"], "completed"),
        (["success", "canceled"], "completed"),
        (["canceled", "canceled"], "canceled"),
        ([], "completed"),
    ],
)
def test_without_a_failure_the_outcome_is_completed(states: list[str], outcome: str) -> None:
    assert step(*states) == Step(outcome=OccurrenceState(outcome))


@pytest.mark.req("EXE-2")
@pytest.mark.req("EXE-3")
@pytest.mark.parametrize("strategy", [FAIL_FAST, FailureStrategy.RETRY_ON_FAILURE])
@pytest.mark.parametrize("state", ["scheduled", "claimed", "running", "retry", HELD])
def test_a_failure_cancels_whatever_is_open_and_fails_the_occurrence(
    strategy: FailureStrategy, state: str
) -> None:
    assert step("dlq", state, state, strategy=strategy) == Step(
        cancel=ids(1, 2), cancel_reason=FIRST_FAILED, outcome=OccurrenceState.FAILED
    )


@pytest.mark.req("EXE-2")
def test_a_task_that_continues_ignores_the_group_s_cancel() -> None:
    runs = facts(("dlq", FAIL_FAST), ("scheduled", FAIL_FAST), ("scheduled", CONTINUE))
    assert next_step(runs) == Step(cancel=ids(1), cancel_reason=FIRST_FAILED)
    runs = facts(("dlq", FAIL_FAST), (HELD, FAIL_FAST), (HELD, CONTINUE), (HELD, CONTINUE))
    assert next_step(runs) == Step(cancel=ids(1), cancel_reason=FIRST_FAILED, release=ids(2))
    runs = facts(("dlq", FAIL_FAST), ("canceled", FAIL_FAST), ("success", CONTINUE))
    assert next_step(runs) == Step(outcome=OccurrenceState.FAILED)


@pytest.mark.req("EXE-3")
def test_failures_under_continue_cancel_no_run_and_complete_with_errors() -> None:
    assert next_step(facts(("dlq", CONTINUE), (HELD, FAIL_FAST))) == Step(release=ids(1))
    assert next_step(facts(("dlq", CONTINUE), ("running", FAIL_FAST))) == Step()
    assert next_step(facts(("dlq", CONTINUE), ("success", FAIL_FAST))) == Step(
        outcome=OccurrenceState.COMPLETED_WITH_ERRORS
    )


@pytest.mark.req("EXE-3")
def test_one_fail_fast_failure_outweighs_any_tolerated_one() -> None:
    assert next_step(facts(("dlq", CONTINUE), ("dlq", FAIL_FAST))).outcome == OccurrenceState.FAILED


starts = st.lists(
    st.tuples(st.sampled_from(FailureStrategy), st.sampled_from(["success", "dlq", "canceled"])),
    min_size=1,
    max_size=8,
)


@pytest.mark.req("EXE-2")
@pytest.mark.req("EXE-3")
@given(starts, st.booleans(), st.randoms(use_true_random=False))
def test_any_set_of_runs_comes_to_an_end_and_the_strategies_decide_the_outcome(
    plan: list[tuple[FailureStrategy, str]],
    parallel: bool,  # noqa: FBT001 - drawn, not passed
    random: Random,
) -> None:
    """Drive the runs as workers would: take the step, then let a released run end as the test chose."""
    fate = {UUID(int=position): RunState(end) for position, (_, end) in enumerate(plan)}
    runs = {
        run.id: run
        for run in facts(
            *(
                (HELD if position and not parallel else "scheduled", item[0])
                for position, item in enumerate(plan)
            )
        )
    }
    performed: list[RunFacts] = []
    for _ in range(3 * len(runs) + 1):
        taken = next_step(list(runs.values()))
        assert not {*taken.release} & {*taken.cancel}
        for id_ in taken.cancel:
            assert runs[id_].open
            assert not runs[id_].tolerant
            runs[id_] = runs[id_]._replace(state=RunState.CANCELED)
        for id_ in taken.release:
            assert runs[id_].held_back
            runs[id_] = runs[id_]._replace(held_back=False)
        ready = [run for run in runs.values() if run.open and not run.held_back]
        if taken.outcome:
            break
        assert ready, "it is not over, but no run can go on"
        if not parallel:
            assert len(ready) == 1, "a sequence runs one at a time"
        chosen = random.choice(ready)
        performed.append(chosen)
        runs[chosen.id] = chosen._replace(state=fate[chosen.id])
    else:
        pytest.fail("it never ends")

    assert all(run.state in OVER for run in runs.values())
    failed = [run for run in runs.values() if run.state == RunState.DLQ]
    if any(not run.tolerant for run in failed):
        assert taken.outcome == OccurrenceState.FAILED
    elif failed:
        assert taken.outcome == OccurrenceState.COMPLETED_WITH_ERRORS
    elif all(run.state == RunState.CANCELED for run in runs.values()):
        assert taken.outcome == OccurrenceState.CANCELED
    else:
        assert taken.outcome == OccurrenceState.COMPLETED
    tolerant = {run.id for run in runs.values() if run.tolerant}
    assert tolerant <= {run.id for run in performed}, "clean-up always runs"
    if not parallel:
        assert [run.position for run in performed] == sorted(run.position for run in performed)


@pytest.mark.req("OCC-3")
@given(st.lists(st.tuples(st.sampled_from([*RunState.values, HELD]), st.sampled_from(FailureStrategy))))
def test_every_outcome_is_one_that_an_active_occurrence_may_move_to(
    runs: list[tuple[str, FailureStrategy]],
) -> None:
    outcome = next_step(facts(*runs)).outcome
    for state in OCCURRENCE_ACTIVE:
        assert outcome is None or outcome in OCCURRENCE_MOVES[state]


def test_the_step_of_a_finished_occurrence_is_the_same_however_often_it_is_taken() -> None:
    runs = facts(("dlq", FAIL_FAST), ("canceled", FAIL_FAST))
    assert {next_step(runs) for _ in range(3)} == {Step(outcome=OccurrenceState.FAILED)}
    assert uuid4() not in next_step(runs).cancel
