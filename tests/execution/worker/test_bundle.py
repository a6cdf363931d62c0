"""A message with several short runs: claimed at once, called one by one, reported at once."""

from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Any
from uuid import UUID

import pytest

from punctual import Context
from punctual import Job as DeclaredJob
from punctual.conf import Settings
from punctual.execution.supervision.board import board
from punctual.execution.supervision.relief import RELIEVE_AFTER
from punctual.execution.supervision.supervisor import Supervised, Supervisor
from punctual.execution.worker.work import work
from punctual.jobs.declaration.registry import Registry, TaskFunction
from punctual.jobs.models import Job
from punctual.occurrences import transitions
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState
from punctual.recovery.sweeper.reaper import reap
from tests.execution.conftest import NOW
from tests.harness import Harness
from tests.occurrences.factories import a_job, a_run, a_task, an_occurrence, saved

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def everything(declared: Registry, queue: Harness) -> None:
    """Every test in this file uses both fixtures."""


def a_bundle(declared: Registry, *calls: Callable[..., Any], transactional: bool = False) -> list[UUID]:
    """One dispatched occurrence of a job of its own for each function."""
    runs = []
    for number, call in enumerate(calls):
        job = saved(a_job(f"job-{number}", NOW))
        task = saved(a_task(job, f"step-{number}"))
        declared.functions[task.function] = TaskFunction(task.function, call, transactional)
        runs.append(saved(a_run(saved(an_occurrence(job, NOW, OccurrenceState.DISPATCHED)), task)).id)
    return runs


def perform(queue: Harness, runs: list[UUID]) -> int:
    return work(runs, worker="w", clock=queue.clock, stopwatch=queue.stopwatch)


def states(runs: list[UUID]) -> list[str]:
    rows = dict(TaskRun.objects.values_list("id", "state"))
    return [rows[id_] for id_ in runs]


@pytest.mark.req("TSK-2")
def test_each_run_of_a_bundle_is_begun_performed_and_accounted_for(
    declared: Registry, queue: Harness
) -> None:
    begun: list[list[str]] = []

    def call(_: Context) -> None:
        begun.append(states(runs))

    runs = a_bundle(declared, call, call, call)
    assert perform(queue, runs) == 3
    assert begun == [["claimed"] * 3] * 3, "a begun attempt is written with its result"
    assert states(runs) == ["success"] * 3
    assert Counter(Attempt.objects.values_list("state", "number")) == {("success", 0): 3}
    assert set(Occurrence.objects.values_list("state", flat=True)) == {"completed"}


@pytest.mark.req("TSK-3")
def test_past_its_budget_a_bundle_hands_the_unbegun_rest_back_one_by_one(
    declared: Registry, queue: Harness
) -> None:
    def slow(_: Context) -> None:
        queue.pass_time(seconds=10)

    quick: list[Context] = []
    runs = a_bundle(declared, quick.append, slow, quick.append, quick.append)
    assert perform(queue, runs) == 2
    assert states(runs) == ["success", "success", "scheduled", "scheduled"]
    assert queue.work() == 2
    assert [args for _, args in queue.received] == [[[str(runs[2])]], [[str(runs[3])]]]
    assert (len(quick), states(runs)) == (3, ["success"] * 4)
    assert set(Attempt.objects.values_list("number", flat=True)) == {0}, "no attempt was lost"


def test_a_run_that_raises_affects_no_other_run_of_its_bundle(declared: Registry, queue: Harness) -> None:
    def broken(_: Context) -> None:
        raise RuntimeError("broken")

    runs = a_bundle(declared, lambda _: None, broken, lambda _: None)
    assert perform(queue, runs) == 3
    assert states(runs) == ["success", "retry", "success"]


@pytest.mark.req("EXE-10")
def test_a_run_canceled_while_it_waits_in_a_bundle_has_no_effect_and_a_canceled_attempt(
    declared: Registry, queue: Harness
) -> None:
    """The canceled run is still called if its turn comes, within the time budget of its bundle."""
    called: list[Context] = []

    def cancels_the_next(_: Context) -> None:
        transitions.cancel([runs[1]], reason="operator", now=NOW)

    runs = a_bundle(declared, cancels_the_next, called.append, lambda _: None)
    assert perform(queue, runs) == 3
    assert len(called) == 1
    assert states(runs) == ["success", "canceled", "success"]
    assert list(Attempt.objects.filter(run=runs[1]).values_list("state", "number")) == [("canceled", 0)]
    assert TaskRun.objects.get(id=runs[1]).attempts_made == 1


@pytest.mark.req("EXE-6")
def test_a_transactional_task_in_a_bundle_commits_on_its_own(declared: Registry, queue: Harness) -> None:
    seen: list[list[str]] = []
    runs = a_bundle(declared, lambda _: Job.objects.update(metadata={"done": "yes"}), transactional=True)
    runs += a_bundle_after(declared, lambda _: seen.append(states(runs)))
    perform(queue, runs)
    assert seen == [["success", "claimed"]]


def a_bundle_after(declared: Registry, call: Callable[..., Any]) -> list[UUID]:
    job = saved(a_job("another", NOW))
    task = saved(a_task(job, "another"))
    declared.functions[task.function] = TaskFunction(task.function, call, transactional=False)
    return [saved(a_run(saved(an_occurrence(job, NOW, OccurrenceState.DISPATCHED)), task)).id]


def supervise(queue: Harness) -> Supervised:
    """One pass of the supervisor while a function runs, as its own process would make it."""
    return Supervisor(board, Settings()).run_once(at=monotonic() + RELIEVE_AFTER, clock=queue.clock)


@pytest.mark.req("TSK-3")
def test_while_one_function_hangs_the_others_of_its_bundle_are_recorded_and_handed_back(
    declared: Registry, queue: Harness
) -> None:
    order: list[str] = []
    seen: list[list[str]] = []

    def hangs(_: Context) -> None:
        assert supervise(queue).relieved == 2
        seen.append(states(runs))
        queue.pass_time(seconds=1)

    runs = a_bundle(declared, lambda _: None, hangs, lambda _: order.append("third"))
    declaration = DeclaredJob("job-0", "@hourly")
    declaration.on_complete(lambda _: order.append("hook of the first"))
    owing = Occurrence.objects.get(job__name="job-0")
    Occurrence.objects.filter(id=owing.id).update(config=owing.config | declaration.config)
    assert perform(queue, runs) == 2
    assert seen == [["success", "running", "scheduled"]]
    queue.work()
    assert Counter(order) == {"third": 1, "hook of the first": 1}
    assert states(runs) == ["success"] * 3
    assert Counter(Attempt.objects.values_list("state", "number")) == {("success", 0): 3}


@pytest.mark.req("TSK-3")
def test_results_that_the_supervisor_cannot_know_are_reported_by_the_process(
    declared: Registry, queue: Harness
) -> None:
    seen: list[list[str]] = []

    def fails(_: Context) -> None:
        raise RuntimeError("broken")

    def logs(ctx: Context) -> None:
        ctx.logger.warning("seen")

    def hangs(_: Context) -> None:
        supervise(queue)
        seen.append(states(runs))

    runs = a_bundle(declared, fails, logs, lambda _: None, hangs)
    assert perform(queue, runs) == 4
    assert seen == [["retry", "claimed", "success", "running"]], "a failure does not wait for the others"
    assert states(runs) == ["retry", "success", "success", "success"]
    assert "seen" in Attempt.objects.get(run=runs[1]).log


@pytest.mark.req("TSK-2", "TSK-3")
def test_results_that_wait_for_a_long_function_keep_their_leases_and_run_once(
    declared: Registry, queue: Harness
) -> None:
    """Only their process knows them: the reaper must not take them for lost as long as it lives."""
    called: list[Context] = []

    def logs(ctx: Context) -> None:
        called.append(ctx)
        ctx.logger.warning("seen")

    def hangs(_: Context) -> None:
        supervisor, began = Supervisor(board, Settings()), monotonic()
        for seconds in range(1, 61):
            queue.pass_time(seconds=1)
            supervisor.run_once(at=began + seconds, clock=queue.clock)
            assert reap(queue.now).lost == 0

    runs = a_bundle(declared, logs, hangs)
    assert perform(queue, runs) == 2
    assert (len(called), states(runs)) == (1, ["success"] * 2)
    assert Counter(Attempt.objects.values_list("state", "number")) == {("success", 0): 2}


def test_a_single_run_that_takes_long_costs_the_supervisor_no_relief(
    declared: Registry, queue: Harness
) -> None:
    passes: list[Supervised] = []
    runs = a_bundle(declared, lambda _: passes.append(supervise(queue)))
    perform(queue, runs)
    assert passes == [Supervised()]


def test_a_bundle_whose_lease_has_expired_begins_no_further_run(declared: Registry, queue: Harness) -> None:
    def sleeps(_: Context) -> None:
        queue.pass_time(seconds=31)

    called: list[Context] = []
    runs = a_bundle(declared, sleeps, called.append)
    work(runs, worker="w", clock=queue.clock, stopwatch=lambda: 0.0)
    assert called == []
    assert states(runs) == ["success", "claimed"], "the reaper takes it when its lease has expired"
