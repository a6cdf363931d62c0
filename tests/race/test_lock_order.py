"""Writers that meet on the same rows lock them in one order: none of them ends with a deadlock."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any, TypeVar
from uuid import UUID

import pytest
from django.db import connection, transaction

from punctual import Context, Job
from punctual.execution.ending.cancel import cancel
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import report
from punctual.execution.supervision.board import BegunState
from punctual.execution.supervision.relief import SlowBundle, relieve
from punctual.execution.worker.claim import Claim, begin, claim, report_of_claim
from punctual.execution.worker.work import work
from punctual.occurrences import transitions
from punctual.occurrences.models import Attempt, Occurrence, Pool, TaskRun
from punctual.occurrences.states import OCCURRENCE_OPEN, Reason
from tests.harness import Harness
from tests.race.release import noop
from tests.race.threads import TIMEOUT, names, wait_until_blocked, wait_until_done_or_blocked

Done = TypeVar("Done")


def fire_jobs(harness: Harness, jobs: int, *, members: int = 1, **options: Any) -> list[TaskRun]:
    """Fire one occurrence of each job; return the runs in the order of their occurrences."""
    for name in names(jobs):
        job = Job(name, "*/10 * * * * *", mode="parallel", **options)
        for number in range(members):
            job.task(name=f"step {number}")(noop)
    return fire(harness)


def fire(harness: Harness) -> list[TaskRun]:
    harness.now = harness.now.replace(second=0)
    harness.sync()
    harness.tick()
    harness.pass_time(seconds=10)
    harness.tick(sweeping=False)
    harness.lose_messages()
    return list(TaskRun.objects.order_by("occurrence_id", "position"))


def claim_bundle(harness: Harness, runs: Sequence[TaskRun]) -> list[Claim]:
    claims = claim([run.id for run in runs], worker="w", now=harness.now)
    return [begun for item in claims if (begun := begin(item, now=harness.now))]


@contextmanager
def other_transaction() -> Iterator[Callable[[Callable[[], Done]], Done]]:
    """A transaction of another thread, step by step; it is committed at the end of the block."""
    block = transaction.atomic()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(block.__enter__).result(TIMEOUT)
        try:
            yield lambda call: pool.submit(call).result(TIMEOUT)
        finally:
            pool.submit(block.__exit__, None, None, None).result(TIMEOUT)
            pool.submit(closing, lambda: None).result(TIMEOUT)


def closing(call: Callable[[], Done]) -> Done:
    try:
        return call()
    finally:
        connection.close()


@pytest.mark.req("EXE-2")
def test_a_bundle_with_a_final_failure_locks_all_its_occurrences_in_order(harness: Harness) -> None:
    runs = fire_jobs(harness, 2, members=2)
    first, second = runs[0], runs[2]
    success, failure = claim_bundle(harness, [first, second])
    reports = [
        report_of_claim(success, Result(Ending.SUCCESS)),
        report_of_claim(failure, Result(Ending.FATAL, error_type="Broken")),
    ]
    with ThreadPoolExecutor(1) as pool:
        with other_transaction() as other:  # it locks both in order, as a cancel or a sweep does
            other(lambda: transitions.lock_occurrences([first.occurrence_id]))
            reporting = pool.submit(closing, partial(report, reports, now=harness.now))
            wait_until_blocked()
            other(lambda: transitions.lock_occurrences([second.occurrence_id]))
        assert reporting.result(TIMEOUT).finished == (second.occurrence_id,)


@pytest.mark.req("TSK-2", "TSK-3")
@pytest.mark.parametrize("members", [1, 2])
def test_a_supervisor_and_a_process_that_report_the_same_runs_report_each_once(
    harness: Harness, members: int
) -> None:
    """The long function of a bundle returns while the supervisor relieves the bundle."""
    runs = fire_jobs(harness, 2, members=members)
    claims = claim_bundle(harness, runs)
    begun = {run.id: BegunState.SUCCEEDED for run in runs}
    bundle = SlowBundle(claims[0].token, UUID(int=0), timedelta(), begun)
    reports = [report_of_claim(item, Result(Ending.SUCCESS)) for item in reversed(claims)]
    with ThreadPoolExecutor(2) as pool:
        with other_transaction() as other:  # it stops both before they write
            other(lambda: list(TaskRun.objects.select_for_update(no_key=True).order_by("id")))
            process = pool.submit(closing, partial(report, reports, now=harness.now))
            wait_until_blocked()
            supervisor = pool.submit(closing, partial(relieve, [bundle], now=harness.now))
            assert not supervisor.result(TIMEOUT).reported, "it leaves them to the process"
        process.result(TIMEOUT)
    assert set(TaskRun.objects.values_list("state", "attempts_made")) == {("success", 1)}
    assert list(Attempt.objects.values_list("state", flat=True)) == ["success"] * len(runs)
    fired = Occurrence.objects.filter(fired_at__isnull=False)
    assert set(fired.values_list("state", flat=True)) == {"completed"}


@pytest.mark.req("EXE-6", "EXE-10")
def test_a_transactional_function_with_progress_does_not_deadlock_with_a_cancel(harness: Harness) -> None:
    job = Job("job", "*/10 * * * * *")
    begun, locked = Event(), Event()

    @job.task(transactional=True)
    def counts(ctx: Context) -> None:
        ctx.heartbeat({"rows": 12})
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL deadlock_timeout = '20s'")  # the cancel would be the victim
        begun.set()
        assert locked.wait(TIMEOUT)

    (run,) = fire(harness)
    with ThreadPoolExecutor(1) as pool:
        with other_transaction() as other:
            working = pool.submit(closing, partial(work, [run.id], worker="w", clock=harness.clock))
            assert begun.wait(TIMEOUT)
            other(lambda: transitions.lock_occurrences([run.occurrence_id]))  # as a cancel begins
            locked.set()
            wait_until_blocked()
            other(partial(cancel, [run.occurrence_id], reason=Reason.OPERATOR, now=harness.now))
        assert working.result(TIMEOUT) == 1
    run.refresh_from_db()
    assert (run.state, run.attempts.get().state) == ("canceled", "canceled")


@pytest.mark.req("OCC-6", "EXE-10")
def test_a_cancel_of_active_and_waiting_occurrences_does_not_deadlock_with_an_ending(
    harness: Harness,
) -> None:
    """Both admit waiting occurrences of one pool."""
    Pool.objects.create(name="default", size=2)
    fire_jobs(harness, 5)
    ending, active = Occurrence.objects.active().order_by("id").values_list("id", flat=True)
    first, *_ = Occurrence.objects.waiting().order_by("run_at", "id").values_list("id", flat=True)
    stop = partial(cancel, reason=Reason.OPERATOR, now=harness.now)
    with ThreadPoolExecutor(1) as pool:
        with other_transaction() as other:
            locks = partial(transitions.lock_occurrences, [active, first], states=OCCURRENCE_OPEN)
            other(locks)  # as a cancel of both begins
            ended = pool.submit(closing, partial(stop, [ending]))
            wait_until_done_or_blocked(ended)
            other(partial(stop, [active, first]))
        assert ended.result(TIMEOUT).finished == (ending,)
    assert Occurrence.objects.active().count() == 2
    assert Occurrence.objects.get(id=first).state == "canceled"
