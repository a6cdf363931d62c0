"""Bundles and single runs that meet in the same moment."""

import random
from collections import Counter
from functools import partial
from typing import Any

import pytest

from execution.cancel import cancel
from execution.claim import Claimed, begin, claim, hand_back
from execution.outcome import Ending, Result
from execution.report import Report, report
from jobs import Job
from occurrences.models import Attempt, Occurrence, TaskRun
from tests.harness import Harness
from tests.race.threads import at_once

JOBS = 8


def noop(ctx: object) -> None: ...


@pytest.fixture
def runs(harness: Harness) -> list[TaskRun]:
    for number in range(JOBS):
        Job(f"job {number}", "*/10 * * * * *").task(name="step")(noop)
    harness.now = harness.now.replace(second=0)
    harness.sync()
    harness.tick()
    harness.pass_time(seconds=10)
    harness.tick(sweeping=False)
    harness.lose_messages()
    return list(TaskRun.objects.order_by("id"))


@pytest.mark.req("TSK-2")
def test_of_bundles_that_overlap_each_run_goes_to_one_worker(harness: Harness, runs: list[TaskRun]) -> None:
    """A resent message may carry the same runs in another order; nobody waits in a circle for that."""
    ids = [run.id for run in runs]
    shuffled = [random.Random(seed).sample(ids, JOBS) for seed in range(4)]  # noqa: S311 - an order, no secret
    results: list[Claimed] = at_once(
        *(partial(claim, ids, worker=f"w/{number}", now=harness.now) for number, ids in enumerate(shuffled))
    )
    taken = Counter(item.run.id for result in results for item in result.claims)
    assert taken == {run.id: 1 for run in runs}
    begun = [item for result in results for item in result.claims if item.begun]
    assert Attempt.objects.count() == len(begun)
    assert set(Occurrence.objects.active().values_list("state", flat=True)) == {"running"}


@pytest.mark.req("TSK-2")
def test_a_held_run_is_begun_or_handed_back_never_both(harness: Harness, runs: list[TaskRun]) -> None:
    ids = [run.id for run in runs]
    for item in claim(ids, worker="w", now=harness.now).claims[1:]:
        begun, _ = at_once(
            partial(begin, item, worker="w", now=harness.now),
            partial(_handed_back, item, harness),
        )
        state = TaskRun.objects.get(id=item.run.id).state
        assert state == ("running" if begun else "scheduled")
        assert Attempt.objects.filter(run=item.run.id).count() == int(bool(begun))


def _handed_back(item: Any, harness: Harness) -> Any:
    return hand_back([item], now=harness.now)


@pytest.mark.req("EXE-10", "TSK-2")
def test_a_success_and_a_cancel_of_one_occurrence_leave_one_ending(
    harness: Harness, runs: list[TaskRun]
) -> None:
    for run in runs:
        (item,) = claim([run.id], worker="w", now=harness.now).claims
        success = Report(
            run.id, run.occurrence_id, item.token, Result(Ending.SUCCESS), item.run if item.alone else None
        )
        at_once(
            partial(report, [success], now=harness.now),
            partial(cancel, [run.occurrence_id], reason="operator", now=harness.now),
        )
        occurrence = Occurrence.objects.get(id=run.occurrence_id)
        (attempt,) = Attempt.objects.filter(run=run)
        run.refresh_from_db()
        assert (occurrence.state, run.state, attempt.state) in {
            ("completed", "success", "success"),
            ("canceled", "canceled", "canceled"),
        }
