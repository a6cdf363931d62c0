"""Random edits at random moments: every occurrence runs what its version says."""

from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from punctual import Context
from punctual.jobs.config.cascade import merge_layers, platform
from punctual.jobs.config.choices import Update
from punctual.jobs.config.keys import TASK_KEYS
from punctual.jobs.control import get_job
from punctual.jobs.declaration.registry import Registry, TaskFunction
from punctual.jobs.definition.document import Definition, TaskDefinition
from punctual.jobs.ids import job_id
from punctual.jobs.models import Job, JobVersion, Origin, Task
from punctual.jobs.store.definitions import Change, store
from punctual.jobs.store.update_policy import UpdatePolicy
from punctual.occurrences.models import Occurrence
from punctual.occurrences.operator import trigger
from tests.harness import Harness

FUNCTIONS = [f"module.{name}" for name in "abcdef"]
numbers = count()
calls: list[tuple[str, str, str, dict[str, str], dict[str, Any]]] = []
failing: set[str] = set()  # functions that fail at their next call


def record(function: str, ctx: Context) -> None:
    calls.append((ctx.occurrence_id, ctx.task, function, dict(ctx.metadata), dict(ctx.args)))
    if function in failing:
        failing.remove(function)
        raise RuntimeError("fails once")


@pytest.fixture(autouse=True)
def functions(declared: Registry) -> Iterator[None]:
    for name in FUNCTIONS:
        declared.add_function(TaskFunction(name, partial(record, name)))
    yield
    calls.clear()
    failing.clear()


tasks = st.lists(
    st.builds(
        TaskDefinition,
        name=st.sampled_from(["first", "second", "third"]),
        function=st.sampled_from(FUNCTIONS),
        config=st.fixed_dictionaries(
            {},
            optional={
                "task_timeout": st.sampled_from(["1m", "2m"]),
                "failure_strategy": st.sampled_from(["continue", "retry_on_failure"]),
            },
        ),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda task: task.name,
)
definitions = st.builds(
    Definition,
    name=st.just("job"),
    schedule=st.sampled_from(["* * * * *", "*/20 * * * * *", "30 * * * * *", "delay:25s"]),
    config=st.fixed_dictionaries(
        {
            "retry": st.sampled_from(
                [{"max_retries": 5, "interval": "7s"}, {"max_retries": 3, "interval": "2s"}]
            )
        },
        optional={
            "overlap": st.sampled_from(["allow", "queue", "queue_latest"]),
            "mode": st.sampled_from(["parallel", "sequential"]),
            "pool": st.sampled_from(["one", "two"]),
        },
    ),
    metadata=st.fixed_dictionaries({}, optional={"team": st.sampled_from(["data", "web"])}),
    tasks=tasks.map(tuple),
)
acts = st.one_of(
    st.tuples(st.just("edit"), definitions, st.sampled_from(Update)),
    st.tuples(st.just("function"), st.sampled_from(FUNCTIONS)),
    st.tuples(st.just("metadata"), st.sampled_from(["ops", "qa"])),
    st.tuples(st.just("retire")),
    st.tuples(st.just("trigger"), st.integers(0, 9)),
    st.tuples(st.just("fail"), st.sampled_from(FUNCTIONS)),
    st.tuples(st.just("tick")),
    st.tuples(st.just("step")),
    st.tuples(st.just("work")),
)
steps = st.lists(st.tuples(st.sampled_from([0, 1, 9, 30, 61]), acts), min_size=4, max_size=14)


def act(harness: Harness, name: str, action: tuple[Any, ...]) -> None:
    match action:
        case ("edit", Definition() as wanted, Update() as policy):
            edit(harness, name, wanted, policy)
        case ("trigger", int(value)):
            trigger(get_job(name), args={"value": value}, now=harness.now)
        case ("fail", str(function)):
            failing.add(function)
        case ("tick",):
            harness.tick()
        case ("step",):
            harness.step()
        case ("work",):
            harness.work()
        case _:
            edit_rows(harness, name, action)


def edit_rows(harness: Harness, name: str, action: tuple[Any, ...]) -> None:
    """As raw SQL does."""
    tasks = Task.objects.current().filter(job__name=name)
    match action:
        case ("function", str(function)):
            tasks.filter(name="first").update(function=function)
        case ("metadata", str(team)):
            Job.objects.filter(name=name).update(metadata={"team": team})
        case ("retire",) if tasks.count() > 1:
            tasks.filter(name="second").update(retired_at=harness.now)


def edit(harness: Harness, name: str, wanted: Definition, policy: Update) -> None:
    """Store, and check at once which occurrences took the new version."""
    harness.tick()  # raw edits become versions first
    rows = Occurrence.objects.filter(job__name=name)
    before = dict(rows.values_list("id", "job_version"))
    pending = rows.filter(state="pending", cause="schedule", scheduled_for__gt=harness.now)
    ahead = list(pending.order_by("scheduled_for").values_list("id", flat=True))
    change = Change(Origin.ADMIN, "editor", harness.now, policy=UpdatePolicy(policy))
    stored = store([Definition(name, *vars_of(wanted))], change)
    after = dict(rows.values_list("id", "job_version"))
    fixed = set(before) - set(ahead) | set(ahead if stored.preserved else ())
    fixed |= set(ahead[:1]) if policy is Update.GRACEFUL else set()
    assert {id_: after.get(id_) for id_ in fixed} == {id_: before[id_] for id_ in fixed}, "these keep theirs"
    new = get_job(name).version
    assert {after[id_] for id_ in after if id_ not in fixed} <= {new}


def vars_of(item: Definition) -> tuple[Any, ...]:
    return (item.schedule, item.config, item.metadata, item.tasks)


def finish(harness: Harness, name: str) -> list[Occurrence]:
    failing.clear()
    Job.objects.filter(name=name).update(enabled=False, updated_at=harness.now)  # nothing new
    for _ in range(60):
        harness.pass_time(seconds=5)
        harness.tick()
        harness.work()
        rows = Occurrence.objects.filter(job__name=name)
        if not rows.filter(finished_at=None).exists():
            return list(rows.filter(fired_at__isnull=False))
    raise AssertionError(list(rows.values_list("state", "cause", "run_at")))


def assert_snapshot(row: Occurrence, version: JobVersion) -> None:
    after: Any = version.after
    expected = {task["name"]: task["function"] for task in after["tasks"]}
    runs = list(row.runs.select_related("task").order_by("position"))
    assert [(run.task.name, run.function) for run in runs] == list(expected.items())
    for run, task in zip(runs, after["tasks"], strict=True):
        layers = {"platform": platform(), "job": after["config"], "task": task["config"]}
        assert run.policy == merge_layers(layers | {"occurrence": row.overrides}).to_json(TASK_KEYS)
    own = [call[1:] for call in calls if call[0] == row.display_id]
    for task, function, metadata, args in own:
        assert (function, metadata, args) == (expected[task], after["metadata"], row.args)
    if row.state == "completed":
        assert {task for task, *_ in own} == set(expected)
    report: Any = row.report
    assert (report["job_version"], [task["task"] for task in report["tasks"]]) == (
        version.number,
        list(expected),
    )


@pytest.mark.req("JOB-5", "JOB-6", "JOB-7")
@given(first=definitions, moments=steps)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_after_any_edits_every_occurrence_has_run_its_own_version(
    harness: Harness, first: Definition, moments: list[tuple[int, tuple[Any, ...]]]
) -> None:
    name = f"job-{next(numbers)}"
    harness.lose_messages()
    store([Definition(name, *vars_of(first))], Change(Origin.ADMIN, "author", harness.now))
    harness.tick()
    for seconds, action in moments:
        harness.pass_time(seconds=seconds)
        act(harness, name, action)
    rows = finish(harness, name)
    versions = {row.number: row for row in JobVersion.objects.filter(job=job_id(name))}
    for row in rows:
        assert_snapshot(row, versions[row.job_version])
