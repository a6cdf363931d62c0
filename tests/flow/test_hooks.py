"""Hooks from the tick to the last settled row, with workers that die and hooks that hang."""

from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from punctual import Context, Job, hook
from punctual.conf import current_settings
from punctual.execution.ending import hook_calls
from punctual.execution.ending.cancel import cancel_now
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import report
from punctual.execution.models import HookCall
from punctual.execution.worker.claim import report_of_claim
from punctual.jobs.definition.document import Definition
from punctual.jobs.models import Origin
from punctual.jobs.store.definitions import Change, store
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.recovery.pruning import prune_step
from tests.harness import Harness, at_the_hour, hook_into, states_of

pytestmark = pytest.mark.req("JOB-9")


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_on_start_runs_before_any_task_and_on_complete_after_all(harness: Harness, mode: str) -> None:
    order: list[str] = []
    job = Job("job", "0 * * * *", mode=mode)

    @job.on_start
    def start(occurrence: Occurrence) -> None:
        order.append("start")
        assert not occurrence.runs.filter(available_at__isnull=False).exists()
        assert harness.take() is None, "no task has a message"

    def task(ctx: Context) -> None:
        order.append("task")

    for number in range(3):
        job.task(name=f"task-{number}")(task)

    @job.on_complete
    def complete(report: Any) -> None:
        order.append("complete")

    at_the_hour(harness)
    harness.work()

    assert order == ["start", "task", "task", "task", "complete"]
    assert harness.finished("job") == ["completed"]
    assert Occurrence.objects.unfinalized().count() == 0


@pytest.mark.req("TSK-2")
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_an_on_start_that_is_longer_than_the_lease_does_not_lead_to_a_second_body(
    harness: Harness, mode: str
) -> None:
    bodies: list[int] = []
    job = Job("job", "0 * * * *", mode=mode)

    @job.on_start
    def slow(occurrence: Occurrence) -> None:
        for _ in range(4):
            harness.pass_time(seconds=15)
            harness.tick()
            harness.work()  # other workers

    @job.task
    def body(ctx: Context) -> None:
        bodies.append(ctx.attempt)

    at_the_hour(harness)
    harness.work()
    harness.live(seconds=40)

    assert bodies == [0]
    assert states_of(harness.attempts("job")) == ["success"]
    assert [(row.event, row.tries) for row in HookCall.objects.all()] == [("on_start", 1)]


def test_a_lost_request_for_the_start_hook_delays_the_job_and_loses_nothing(harness: Harness) -> None:
    seen: list[Any] = []
    job = Job("job", "0 * * * *")
    job.on_start(hook_into(seen))
    job.task(noop)
    at_the_hour(harness)
    assert harness.lose_messages() == 1
    harness.live(seconds=40)
    assert (len(seen), harness.finished("job")) == (1, ["completed"])


def test_a_worker_that_dies_during_a_hook_costs_a_try_and_not_the_hook(harness: Harness) -> None:
    seen: list[Any] = []
    job = Job("job", "0 * * * *")
    job.task(noop)
    job.on_complete(hook_into(seen))
    at_the_hour(harness)
    (item,) = harness.crash_worker()
    report([report_of_claim(item, Result(Ending.SUCCESS))], now=harness.now)
    hook_calls.register(Occurrence.objects.unfinalized(), now=harness.now)
    (call,) = HookCall.objects.all()
    hook_calls.claim(call, hung=False, worker="doomed/1", now=harness.now, settings=current_settings())

    harness.live(seconds=90)
    assert seen == [], "its lease: that process may still be calling it"
    harness.live(seconds=10)
    assert len(seen) == 1
    assert (HookCall.objects.get().tries, HookCall.objects.get().failed) == (2, False)
    assert harness.finished("job") == ["completed"]


@pytest.mark.parametrize("event", ["on_start", "on_complete"])
def test_a_hook_that_always_hangs_is_given_up_and_its_job_and_others_go_on(
    harness: Harness, event: str
) -> None:
    tries: list[int] = []
    job = Job("job", "*/20 * * * * *")
    job.task(noop)
    Job("other", "*/5 * * * * *").task(another)

    def hangs(_: object) -> None:
        tries.append(1)
        raise SoftTimeLimitExceeded

    getattr(job, event)(hangs)
    harness.start_at(harness.now.replace(second=18))
    harness.live(seconds=10)

    assert len(tries) == 3
    (call,) = HookCall.objects.all()
    assert (call.event, call.tries, call.failed) == (event, 3, True)
    assert harness.finished("job") == ["completed"]
    assert harness.finished("other") == ["completed"] * 2
    assert Occurrence.objects.unfinalized().count() == 0


def noop(ctx: Context) -> None: ...


def another(ctx: Context) -> None: ...


@pytest.mark.req("JOB-3", "JOB-4")
def test_a_job_from_a_file_names_hooks_that_code_registers(harness: Harness) -> None:
    seen: list[Any] = []

    @hook
    def notify(report: Any) -> None:
        seen.append(report["outcome"])

    Job("registers-the-function", "@daily").task(noop)
    name = f"{__name__}.{notify.__qualname__}"
    definition = Definition.load(
        {
            "name": "filed",
            "schedule": "0 * * * *",
            "config": {"on_complete": [name, "nowhere.registered"], "on_start": ["nowhere.registered"]},
            "tasks": [{"name": "step", "function": f"{__name__}.noop"}],
        }
    )
    store([definition], Change(Origin.FILE, "ada", harness.now))
    at_the_hour(harness)
    harness.work()
    harness.live(seconds=3)

    assert seen == ["completed"]
    assert harness.finished("filed") == ["completed"]
    unresolved = "Unresolved: no code registers the hook 'nowhere.registered'"
    records = HookCall.objects.order_by("-event", "position").values_list("event", "failed", "error")
    assert list(records) == [
        ("on_start", True, unresolved),
        ("on_complete", False, ""),
        ("on_complete", True, unresolved),
    ]


@pytest.mark.req("JOB-5")
def test_an_occurrence_has_the_hooks_of_the_definition_it_was_planned_with(harness: Harness) -> None:
    seen: list[Any] = []
    job = Job("job", "0 * * * *")
    job.task(noop)
    at_the_hour(harness)
    job.on_complete(hook_into(seen))
    harness.sync()
    harness.work()
    assert (harness.finished("job"), seen) == (["completed"], [])
    harness.pass_time(hours=1)
    harness.tick()
    harness.work()
    assert len(seen) == 1


@pytest.mark.req("EXE-10")
def test_an_occurrence_that_is_canceled_before_its_start_hook_calls_only_the_completion_hook(
    harness: Harness,
) -> None:
    seen: list[Any] = []
    job = Job("job", "0 * * * *")
    job.task(noop)
    job.on_start(hook_into(seen, "start"))
    job.on_complete(hook_into(seen, "complete"))
    at_the_hour(harness)
    (row,) = [item for item in harness.occurrences("job") if item.state == "dispatched"]
    cancel_now(occurrences=[row.id], reason="operator", now=harness.now)
    harness.work()
    assert [report["outcome"] for report in seen] == ["canceled"]
    assert states_of(harness.runs("job")) == ["canceled"]


@pytest.mark.req("REC-6")
def test_calls_are_pruned_with_their_occurrence(harness: Harness) -> None:
    job = Job("job", "0 * * * *", retention="1h")
    job.task(noop)
    job.on_complete(hook_into([]))
    at_the_hour(harness)
    harness.work()
    assert HookCall.objects.count() == 1
    harness.pass_time(hours=3)
    prune_step(harness.now)
    assert (HookCall.objects.count(), TaskRun.objects.count()) == (0, 0)
