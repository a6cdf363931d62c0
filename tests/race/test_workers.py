"""Workers claim, report and settle the same occurrence at the same time."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any

import pytest
from django.db import connection, transaction

from punctual.execution.ending.attempt_report import Report
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import end_runs, report
from punctual.execution.ending.settle import Settled, settle
from punctual.execution.worker.claim import Claim, claim, report_of_claim
from punctual.occurrences.admission.firing import fire_due
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.planning.materialize import plan_due
from punctual.recovery.sweeper.free_slots import admit_stranded
from tests.harness import Harness
from tests.race.release import declare, release_runs
from tests.race.threads import TIMEOUT, at_once, wait_until_blocked


def report_of(item: Claim, ending: Ending) -> Report:
    error = "" if ending is Ending.SUCCESS else "Broken"
    return report_of_claim(item, Result(ending, error_type=error))


@pytest.fixture(autouse=True)
def whole_minute(harness: Harness) -> None:
    harness.now = harness.now.replace(second=0)


@pytest.mark.req("TSK-2")
def test_one_of_eight_workers_claims_a_run(harness: Harness) -> None:
    declare(1)
    harness.sync()
    harness.tick()
    (run,) = release_runs(harness)
    results: list[tuple[Claim, ...]] = at_once(
        *(partial(claim, [run.id], worker=f"worker/{number}", now=harness.now) for number in range(8))
    )

    (winner,) = [item for result in results for item in result]
    assert winner.run.first, "it started the occurrence"
    (attempt,) = Attempt.objects.all()
    run.refresh_from_db()
    assert (run.attempts_made, run.claimed_by, attempt.worker) == (1, attempt.worker, run.claimed_by)
    assert run.claim_token == winner.token


@pytest.mark.req("EXE-1")
@pytest.mark.parametrize(
    ("endings", "outcome"),
    [
        ((Ending.SUCCESS, Ending.SUCCESS), "completed"),
        ((Ending.SUCCESS, Ending.FATAL), "failed"),
        ((Ending.FATAL, Ending.FATAL), "failed"),
    ],
)
def test_of_two_runs_that_end_at_the_same_moment_the_last_one_out_settles(
    harness: Harness, endings: tuple[Ending, Ending], outcome: str
) -> None:
    declare(2, mode="parallel")
    harness.sync()
    harness.tick()
    for _ in range(10):
        runs = release_runs(harness)
        claims = [claim([run.id], worker="w", now=harness.now)[0] for run in runs]
        results: list[Settled] = at_once(
            *(
                partial(report, [report_of(item, ending)], now=harness.now)
                for item, ending in zip(claims, endings, strict=True)
            )
        )

        occurrence = Occurrence.objects.get(id=runs[0].occurrence_id)
        assert occurrence.state == outcome
        assert occurrence.report is not None
        assert occurrence.report["outcome"] == outcome
        assert [len(result.finished) for result in results].count(1) == 1
    assert not Attempt.objects.filter(state="running").exists()


@pytest.mark.req("EXE-2")
def test_a_failure_that_cancels_a_run_being_claimed_leaves_no_attempt_behind(harness: Harness) -> None:
    declare(2, mode="parallel")
    harness.sync()
    harness.tick()
    first, second = release_runs(harness)
    (failing,) = claim([first.id], worker="w", now=harness.now)
    claimed, go_on = Event(), Event()

    def slow_claim() -> tuple[Claim, ...]:
        try:
            with transaction.atomic():
                result = claim([second.id], worker="slow", now=harness.now)
                claimed.set()
                assert go_on.wait(TIMEOUT)
            return result
        finally:
            connection.close()

    def fail() -> Settled:
        try:
            return report([report_of(failing, Ending.FATAL)], now=harness.now)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        claiming = pool.submit(slow_claim)
        assert claimed.wait(TIMEOUT)
        failed = pool.submit(fail)
        try:
            wait_until_blocked()
        finally:
            go_on.set()
        assert len(claiming.result(TIMEOUT)) == 1
        assert len(failed.result(TIMEOUT).finished) == 1

    second.refresh_from_db()
    assert second.state == "canceled"
    assert Counter(Attempt.objects.values_list("state", flat=True)) == {"failed": 1, "canceled": 1}


@pytest.mark.req("EXE-2")
def test_a_report_and_a_claim_of_siblings_never_deadlock(harness: Harness) -> None:
    declare(3, mode="parallel")
    harness.sync()
    harness.tick()
    for _ in range(15):
        runs = release_runs(harness)
        (failing,) = claim([runs[0].id], worker="w", now=harness.now)
        claims: list[Callable[[], Any]] = [
            partial(claim, [run.id], worker="w", now=harness.now) for run in runs[1:]
        ]
        at_once(partial(report, [report_of(failing, Ending.FATAL)], now=harness.now), *claims)

        occurrence = Occurrence.objects.get(id=runs[0].occurrence_id)
        assert occurrence.state == "failed"
        states = Counter(occurrence.runs.values_list("state", flat=True))
        assert states == {"dlq": 1, "canceled": 2}
        assert not Attempt.objects.filter(state="running").exists()


@pytest.mark.req("OCC-4")
def test_an_occurrence_that_becomes_due_while_its_predecessor_ends_is_never_stranded(
    harness: Harness,
) -> None:
    declare(1, overlap="queue")
    harness.sync()
    harness.tick()
    (run,) = release_runs(harness)
    for _ in range(15):
        (item,) = claim([run.id], worker="w", now=harness.now)
        harness.pass_time(seconds=10)
        plan_due(harness.now)
        at_once(
            partial(report, [report_of(item, Ending.SUCCESS)], now=harness.now),
            partial(fire_due, harness.now),
        )
        fire_due(harness.now)  # a beat that found the cursor locked ticks again
        admit_stranded(harness.now)

        active = Occurrence.objects.active().values_list("id", flat=True)
        assert len(active) == 1
        assert not Occurrence.objects.waiting().exists()
        run = TaskRun.objects.get(occurrence__in=active)


@pytest.mark.req("REC-3")
def test_settling_and_canceling_one_occurrence_from_four_threads_ends_it_once(
    harness: Harness,
) -> None:
    declare(3, mode="parallel")
    harness.sync()
    harness.tick()
    runs = release_runs(harness)
    claims = [claim([run.id], worker="w", now=harness.now)[0] for run in runs]
    # A worker that dies between the end of the last runs and the next step.
    end_runs([report_of(item, Ending.SUCCESS) for item in claims], now=harness.now)
    results: list[Settled] = at_once(
        *(partial(settle, [runs[0].occurrence_id], now=harness.now) for _ in range(4))
    )

    assert sum(len(result.finished) for result in results) == 1
    assert Occurrence.objects.get(id=runs[0].occurrence_id).state == "completed"
