from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.execution.broker.bundling import FILL, MAX_RUNS, bundle_runs
from punctual.occurrences.outbox import Ready
from tests.execution.conftest import NOW

TASK = str(uuid5(NAMESPACE_OID, "task"))
QUICK = {TASK: 0.0001}


def runs(count: int, **facts: Any) -> list[Ready]:
    return [
        Ready(
            run_id=str(uuid5(NAMESPACE_OID, f"{number} {facts}")),
            occurrence_id=str(uuid5(NAMESPACE_OID, f"occurrence {number}")),
            task_id=TASK,
            attempts_made=0,
            job="job",
            task="task",
            scheduled_for=NOW,
            mode="sequential",
            queue="default",
            task_timeout="5m",
            bundle=True,
        )._replace(**facts)
        for number in range(count)
    ]


def sizes(found: list[tuple[Ready, ...]]) -> list[int]:
    return [len(bundle) for bundle in found]


@pytest.mark.parametrize(
    ("count", "slots", "expected"),
    [
        (0, 4, []),
        (4, 4, [1, 1, 1, 1]),
        (5, 4, [2, 2, 1]),
        (100, 4, [25, 25, 25, 25]),
        (101, 2, [50, 50, 1]),
        (3, 0, [3]),
    ],
)
def test_runs_are_spread_over_all_slots_with_at_most_fifty_in_a_message(
    count: int, slots: int, expected: list[int]
) -> None:
    assert sizes(bundle_runs(runs(count), QUICK, slots=slots)) == expected


def test_tasks_not_known_as_short_and_tasks_that_opted_out_travel_alone() -> None:
    assert sizes(bundle_runs(runs(4), {}, slots=1)) == [1] * 4
    assert sizes(bundle_runs(runs(4, bundle=False), QUICK, slots=1)) == [1] * 4
    assert sizes(bundle_runs([*runs(2, bundle=False), *runs(3)], QUICK, slots=1)) == [1, 1, 3]


@pytest.mark.parametrize("fact", [{"queue": "other"}, {"task_timeout": "1s"}])
def test_only_runs_of_one_queue_and_one_timeout_share_a_message(fact: dict[str, str]) -> None:
    found = bundle_runs([*runs(3), *runs(3, **fact)], QUICK, slots=1)
    assert sizes(found) == [3, 3]
    assert all(len({(run.queue, run.task_timeout) for run in bundle}) == 1 for bundle in found)


def test_a_message_carries_no_more_than_fits_its_budget() -> None:
    assert sizes(bundle_runs(runs(9), {TASK: FILL / 4}, slots=1)) == [4, 4, 1]


@given(
    kinds=st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.sampled_from("xyz")), max_size=200),
    slots=st.integers(1, 20),
    pace=st.floats(0, 0.02),
)
def test_every_run_is_carried_once_and_no_message_is_too_big(
    kinds: list[tuple[str, bool, str]], slots: int, pace: float
) -> None:
    tasks = {name: str(uuid5(NAMESPACE_OID, name)) for name in "xyz"}
    given_runs = [
        runs(1, run_id=str(UUID(int=number)), queue=queue, bundle=bundle, task_id=tasks[task])[0]
        for number, (queue, bundle, task) in enumerate(kinds)
    ]
    paces = {tasks["x"]: pace, tasks["y"]: pace / 2}
    found = bundle_runs(given_runs, paces, slots=slots)
    assert sorted(run.run_id for bundle in found for run in bundle) == [run.run_id for run in given_runs]
    for bundle in found:
        assert len(bundle) <= MAX_RUNS
        if len(bundle) > 1:
            assert all(run.bundle and run.task_id in paces for run in bundle)
            assert sum(paces[run.task_id] for run in bundle) <= FILL + 1e-9
