"""An occurrence runs the tasks, functions, policies, metadata and args of the version it was planned with."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from punctual import Context, Job
from punctual.jobs.config.cascade import merge_layers, platform
from punctual.jobs.config.choices import Update
from punctual.jobs.config.keys import TASK_KEYS
from punctual.jobs.control import get_job
from punctual.jobs.declaration.registry import Registry, TaskFunction
from punctual.jobs.definition.document import Definition, TaskDefinition
from punctual.jobs.models import JobVersion, Origin, Task
from punctual.jobs.store.definitions import Change, remove, store
from punctual.jobs.store.update_policy import UpdatePolicy
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.operator import trigger
from tests.harness import Harness

pytestmark = [pytest.mark.req("JOB-5", "JOB-6", "JOB-7")]

MINUTE = timedelta(minutes=1)
STATES = ["pending", "queued", "dispatched", "running", "retrying"]

Call = tuple[str, str, str, dict[str, str], dict[str, Any]]  # occurrence, task, function, metadata, args
calls: list[Call] = []
failures: list[str] = []  # functions that fail at their next call


def record(function: str, ctx: Context) -> None:
    calls.append((ctx.occurrence_id, ctx.task, function, dict(ctx.metadata), dict(ctx.args)))
    if function in failures:
        failures.remove(function)
        raise RuntimeError("fails once")


@pytest.fixture(autouse=True)
def functions(declared: Registry) -> Iterator[None]:
    for name in ("one.extract", "one.load", "two.extract", "two.report"):
        declared.add_function(TaskFunction(name, partial(record, name)))
    yield
    calls.clear()
    failures.clear()


ONE = Definition(
    "etl",
    "* * * * *",
    {"overlap": "queue", "retry": {"max_retries": 2, "interval": "5s"}, "pool": "one"},
    {"team": "one"},
    (
        TaskDefinition("extract", "one.extract", {"task_timeout": "1m"}),
        TaskDefinition("load", "one.load", {"failure_strategy": "continue"}),
    ),
)
TWO = Definition(
    "etl",
    "* * * * *",
    {"overlap": "queue", "retry": {"max_retries": 0}, "pool": "two"},
    {"team": "two"},
    (
        TaskDefinition("report", "two.report", {"failure_strategy": "retry_on_failure"}),
        TaskDefinition("extract", "two.extract", {"task_timeout": "2m"}),
    ),
)
DEFINITIONS = {1: ONE, 2: TWO}


def edit(definition: Definition, now: datetime, kind: Update = Update.IMMEDIATE) -> None:
    store([definition], Change(Origin.ADMIN, "editor", now, policy=UpdatePolicy(kind)))


def bring_to(state: str, harness: Harness) -> Occurrence:
    """An occurrence of version 1 in this state; the harness stands right after the step that led to it."""
    edit(ONE, harness.now)
    harness.tick()
    if state == "pending":
        return harness.occurrences("etl")[0]
    if state == "queued":
        harness.pass_time(seconds=30)
        harness.tick()  # fires the predecessor, whose message waits
        harness.pass_time(minutes=1)
        harness.tick()
        return Occurrence.objects.get(state="queued")
    if state == "retrying":
        failures.append("one.extract")
    harness.pass_time(seconds=30)
    harness.tick()
    if state in ("running", "retrying"):
        harness.step()
    row = Occurrence.objects.exclude(state="pending").get()
    expected = {"retrying": "running"}.get(state, state)
    assert row.state == expected
    if state == "retrying":
        assert TaskRun.objects.get(occurrence=row, task__name="extract").state == "retry"
    return row


def finish(harness: Harness, row: Occurrence) -> Occurrence:
    """Let beat and worker go on until the occurrence is over."""
    for _ in range(40):
        row.refresh_from_db()
        if row.finished_at:
            return row
        harness.pass_time(seconds=5)
        harness.tick()
        harness.work()
    raise AssertionError(f"{row.state} after 200 seconds")


def assert_ran(row: Occurrence, number: int) -> None:
    """The occurrence ran exactly what version `number` says, and its report says so."""
    definition = DEFINITIONS[number]
    assert (row.state, row.job_version) == ("completed", number)
    own = [call[1:] for call in calls if call[0] == row.display_id]
    expected = [(task.name, task.function, dict(definition.metadata), row.args) for task in definition.tasks]
    assert sorted(set(map(repr, own))) == sorted(map(repr, expected)), "no other function, no other metadata"
    runs = list(TaskRun.objects.filter(occurrence=row).select_related("task").order_by("position"))
    assert [(run.task.name, run.function) for run in runs] == [
        (task.name, task.function) for task in definition.tasks
    ]
    for run, task in zip(runs, definition.tasks, strict=True):
        layers = {"platform": platform(), "job": definition.config, "task": task.config}
        assert run.policy == merge_layers(layers | {"occurrence": row.overrides}).to_json(TASK_KEYS)
    report: Any = row.report
    assert report["job_version"] == number
    assert [task["task"] for task in report["tasks"]] == [task.name for task in definition.tasks]
    assert JobVersion.objects.get(job=row.job_id, number=number).after["metadata"] == definition.metadata


@pytest.mark.parametrize("policy", Update)
@pytest.mark.parametrize("state", STATES)
def test_the_occurrence_runs_the_version_that_the_update_policy_left_it(
    harness: Harness, state: str, policy: Update
) -> None:
    row = bring_to(state, harness)
    edit(TWO, harness.now, policy)
    kept = state != "pending" or policy is Update.GRACEFUL
    row = finish(harness, Occurrence.objects.get(id=row.id))
    assert_ran(row, 1 if kept else 2)
    harness.live(minutes=2, step=5)  # a graceful update keeps one more
    follower = Occurrence.objects.filter(job=row.job_id, scheduled_for__gt=row.scheduled_for, job_version=2)
    assert_ran(finish(harness, follower.order_by("scheduled_for")[0]), 2)


@pytest.mark.parametrize("state", STATES)
def test_a_removed_task_still_runs_where_its_version_names_it(harness: Harness, state: str) -> None:
    row = bring_to(state, harness)
    edit(TWO, harness.now, Update.GRACEFUL)
    assert Task.objects.get(name="load").retired_at is not None
    assert_ran(finish(harness, row), 1)


@pytest.mark.parametrize("state", ["queued", "dispatched", "running", "retrying"])
def test_a_task_that_raw_sql_deleted_still_runs_where_its_version_names_it(
    harness: Harness, state: str
) -> None:
    row = bring_to(state, harness)
    Task.objects.filter(runs=None).delete()
    Task.objects.update(function="two.extract", config={})
    assert_ran(finish(harness, row), 1)


def test_an_occurrence_beyond_the_horizon_keeps_its_version(harness: Harness) -> None:
    yearly = "0 9 1 3 *"
    edit(Definition("etl", yearly, ONE.config, ONE.metadata, ONE.tasks), harness.now)
    harness.tick()
    (row,) = harness.occurrences("etl")
    edit(Definition("etl", yearly, TWO.config, TWO.metadata, TWO.tasks), harness.now, Update.WINDOWED)
    harness.now = row.scheduled_for
    assert_ran(finish(harness, Occurrence.objects.get(id=row.id)), 1)


@pytest.mark.parametrize("state", STATES)
def test_an_edit_by_raw_sql_reaches_what_is_planned_and_nothing_else(harness: Harness, state: str) -> None:
    row = bring_to(state, harness)
    Task.objects.filter(name="load").update(retired_at=harness.now)
    Task.objects.filter(name="extract").update(function="two.extract", config={"task_timeout": "2m"})
    row = finish(harness, row)
    if state != "pending":
        assert_ran(row, 1)
        return
    assert (row.job_version, [run.function for run in row.runs.all()]) == (2, ["two.extract"])
    assert JobVersion.objects.get(number=2).author == "sql"


def test_a_manual_run_keeps_the_version_and_the_args_of_its_trigger(harness: Harness) -> None:
    edit(ONE, harness.now)
    harness.tick()
    trigger(get_job("etl"), args={"day": "monday"}, now=harness.now)
    edit(TWO, harness.now)
    row = finish(harness, Occurrence.objects.get(cause="manual"))
    assert row.args == {"day": "monday"}
    assert_ran(row, 1)


def test_a_function_that_code_no_longer_registers_is_unresolved_and_no_other_is_called(
    harness: Harness, declared: Registry
) -> None:
    row = bring_to("dispatched", harness)
    edit(TWO, harness.now)
    del declared.functions["one.extract"]
    row = finish(harness, row)
    assert row.state == "failed"
    report: Any = row.report
    assert "no code registers the function 'one.extract'" in report["tasks"][0]["error"]
    assert {call[2] for call in calls if call[0] == row.display_id} == {"one.load"}, "it continues"


@pytest.mark.req("JOB-10")
@pytest.mark.parametrize(
    ("setting", "kept"),
    [({}, False), ({"update_policy": "graceful"}, True), ({"update_policy": "windowed"}, False)],
)
def test_sync_updates_planned_occurrences_as_the_declaration_says(
    harness: Harness, declared: Registry, setting: dict[str, Any], *, kept: bool
) -> None:
    def first(ctx: Context) -> None: ...
    def second(ctx: Context) -> None: ...

    Job("declared", "0 13 * * *").task(first)
    harness.sync()
    harness.tick()
    declared.remove_job("declared")
    Job("declared", "30 13 * * *", **setting).task(second)
    harness.sync()
    for minute in (0, 30):
        harness.now = datetime(2026, 1, 5, 13, minute, tzinfo=UTC)
        harness.tick()
        harness.work()
    functions = [run.task.name for run in harness.runs("declared")]
    assert functions == (["first", "second"] if kept else ["second"])


def test_the_platform_can_set_the_policy_of_sync(harness: Harness, declared: Registry, settings: Any) -> None:
    def first(ctx: Context) -> None: ...

    settings.PUNCTUAL = {"update_policy": "graceful"}
    Job("declared", "0 13 * * *").task(first)
    harness.sync()
    harness.tick()
    (kept,) = harness.occurrences("declared")
    declared.remove_job("declared")
    Job("declared", "30 13 * * *").task(first)
    harness.sync()
    assert harness.occurrences("declared") == [kept]


def test_a_removed_job_finishes_what_has_started_with_its_version(harness: Harness) -> None:
    row = bring_to("running", harness)
    remove([row.job_id], Change(Origin.ADMIN, "editor", harness.now))
    assert_ran(finish(harness, row), 1)
