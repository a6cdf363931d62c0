"""Bundles and single runs that are claimed and reported at the same time."""

import random
from collections import Counter
from functools import partial

import pytest
from django.db import transaction

from punctual import Job
from punctual.execution.ending.cancel import cancel
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import record_attempts, report
from punctual.execution.worker.claim import Claim, begin, claim, report_of_claim
from punctual.occurrences import transitions
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import Reason
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
    """A resent message may carry the same runs in another order; that must not deadlock."""
    ids = [run.id for run in runs]
    shuffled = [random.Random(seed).sample(ids, JOBS) for seed in range(4)]  # noqa: S311 - an order, no secret
    results: list[tuple[Claim, ...]] = at_once(
        *(partial(claim, ids, worker=f"w/{number}", now=harness.now) for number, ids in enumerate(shuffled))
    )
    taken = Counter(item.run.id for result in results for item in result)
    assert taken == {run.id: 1 for run in runs}
    assert not Attempt.objects.exists()
    assert set(Occurrence.objects.active().values_list("state", flat=True)) == {"running"}


@pytest.mark.req("TSK-2")
def test_an_attempt_that_two_threads_record_is_one_row(harness: Harness, runs: list[TaskRun]) -> None:
    """The supervisor that relieves a long bundle, and the process whose function ends at the same time."""
    for held in claim([run.id for run in runs], worker="w", now=harness.now):
        item = begin(held, now=harness.now)
        assert item is not None
        success = report_of_claim(item, Result(Ending.SUCCESS))
        at_once(partial(_record_attempt, item, harness), partial(report, [success], now=harness.now))
        assert list(Attempt.objects.filter(run=item.run.id).values_list("state", "number")) == [
            ("success", 0)
        ]
        row = TaskRun.objects.get(id=item.run.id)
        assert (row.state, row.attempts_made) == ("success", 1)


def _record_attempt(item: Claim, harness: Harness) -> None:
    with transaction.atomic():
        transitions.lock_occurrences([item.run.occurrence.id])
        record_attempts([item.begun], now=harness.now)


@pytest.mark.req("EXE-10", "TSK-2")
def test_a_success_and_a_cancel_of_one_occurrence_leave_one_ending(
    harness: Harness, runs: list[TaskRun]
) -> None:
    for run in runs:
        (item,) = claim([run.id], worker="w", now=harness.now)
        success = report_of_claim(item, Result(Ending.SUCCESS))
        at_once(
            partial(report, [success], now=harness.now),
            partial(cancel, [run.occurrence_id], reason=Reason.OPERATOR, now=harness.now),
        )
        occurrence = Occurrence.objects.get(id=run.occurrence_id)
        (attempt,) = Attempt.objects.filter(run=run)
        run.refresh_from_db()
        assert (occurrence.state, run.state, attempt.state) in {
            ("completed", "success", "success"),
            ("canceled", "canceled", "canceled"),
        }
