"""Workers claim, report and settle the same occurrence at the same moment."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any

import pytest
from django.db import connection, transaction

from execution.claim import Claim, Claimed, claim
from execution.outcome import Ending, Result
from execution.report import Report, report
from execution.settle import Settled, settle
from occurrences import transitions
from occurrences.firing import fire_due
from occurrences.materialize import plan_due
from occurrences.models import Attempt, Occurrence, TaskRun
from recovery.waiting import admit_stranded
from tests.harness import Harness
from tests.race.fired import declare, fired
from tests.race.threads import PATIENCE, at_once, wait_until_blocked


def ended(item: Claim, ending: Ending) -> Report:
    error = "" if ending is Ending.SUCCESS else "Broken"
    return Report(item.run.id, item.run.occurrence_id, item.token, Result(ending, error_type=error))


@pytest.fixture(autouse=True)
def started(harness: Harness) -> None:
    harness.now = harness.now.replace(second=0)


@pytest.mark.req("TSK-2")
def test_one_of_eight_workers_claims_a_run(harness: Harness) -> None:
    declare(1)
    harness.sync()
    harness.tick()
    (run,) = fired(harness)
    results: list[Claimed] = at_once(
        *(partial(claim, [run.id], worker=f"worker/{number}", now=harness.now) for number in range(8))
    )

    winners = [result for result in results if result.claims]
    assert len(winners) == 1
    assert sum(len(result.started) for result in results) == 1
    (attempt,) = Attempt.objects.all()
    run.refresh_from_db()
    assert (run.attempts_made, run.claimed_by, attempt.worker) == (1, attempt.worker, run.claimed_by)
    assert run.claim_token == winners[0].claims[0].token


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
        runs = fired(harness)
        claims = [claim([run.id], worker="w", now=harness.now).claims[0] for run in runs]
        results: list[Settled] = at_once(
            *(
                partial(report, [ended(item, ending)], now=harness.now)
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
    first, second = fired(harness)
    (failing,) = claim([first.id], worker="w", now=harness.now).claims
    claimed, go_on = Event(), Event()

    def slow_claim() -> Claimed:
        try:
            with transaction.atomic():
                result = claim([second.id], worker="slow", now=harness.now)
                claimed.set()
                assert go_on.wait(PATIENCE)
            return result
        finally:
            connection.close()

    def fail() -> Settled:
        try:
            return report([ended(failing, Ending.FATAL)], now=harness.now)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        claiming = pool.submit(slow_claim)
        assert claimed.wait(PATIENCE)
        failed = pool.submit(fail)
        try:
            wait_until_blocked()
        finally:
            go_on.set()
        assert len(claiming.result(PATIENCE).claims) == 1
        assert len(failed.result(PATIENCE).finished) == 1

    second.refresh_from_db()
    assert second.state == "canceled"
    assert Counter(Attempt.objects.values_list("state", flat=True)) == {"failed": 1, "canceled": 1}


@pytest.mark.req("EXE-2")
def test_a_report_and_a_claim_of_siblings_never_deadlock(harness: Harness) -> None:
    declare(3, mode="parallel")
    harness.sync()
    harness.tick()
    for _ in range(15):
        runs = fired(harness)
        (failing,) = claim([runs[0].id], worker="w", now=harness.now).claims
        claims: list[Callable[[], Any]] = [
            partial(claim, [run.id], worker="w", now=harness.now) for run in runs[1:]
        ]
        at_once(partial(report, [ended(failing, Ending.FATAL)], now=harness.now), *claims)

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
    (run,) = fired(harness)
    for _ in range(15):
        (item,) = claim([run.id], worker="w", now=harness.now).claims
        harness.pass_time(seconds=10)
        plan_due(harness.now)
        at_once(
            partial(report, [ended(item, Ending.SUCCESS)], now=harness.now),
            partial(fire_due, harness.now),
        )
        fire_due(harness.now)  # a beat that found the cursor taken comes back
        admit_stranded(harness.now)

        active = Occurrence.objects.active().values_list("id", flat=True)
        assert len(active) == 1
        assert not Occurrence.objects.waiting().exists()
        run = TaskRun.objects.get(occurrence__in=active)


@pytest.mark.req("REC-3")
def test_settling_and_canceling_the_same_occurrence_from_four_doors_ends_it_once(
    harness: Harness,
) -> None:
    declare(3, mode="parallel")
    harness.sync()
    harness.tick()
    runs = fired(harness)
    claims = [claim([run.id], worker="w", now=harness.now).claims[0] for run in runs]
    transitions.succeed([item.run.id for item in claims], now=harness.now)
    results: list[Settled] = at_once(
        *(partial(settle, [runs[0].occurrence_id], now=harness.now) for _ in range(4))
    )

    assert sum(len(result.finished) for result in results) == 1
    assert Occurrence.objects.get(id=runs[0].occurrence_id).state == "completed"
