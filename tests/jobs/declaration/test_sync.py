from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from punctual import DefinitionError, Job
from punctual.jobs.declaration.registry import Registry, registry
from punctual.jobs.declaration.sync import Synced, sync
from punctual.jobs.ids import job_id, task_id
from punctual.jobs.models import Job as JobRow
from punctual.jobs.models import Origin, Task
from tests.occurrences.factories import a_job, a_task, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("JOB-10")]

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


@pytest.fixture(autouse=True)
def declared() -> Iterator[Registry]:
    with registry.isolated():
        yield registry


def noop(ctx: object) -> None: ...


def other(ctx: object) -> None: ...


def declare(name: str = "job", schedule: str = "@hourly", *tasks: str, **options: Any) -> Job:
    registry.jobs.pop(name, None)
    job = Job(name, schedule, **options)
    for task in tasks or ("step",):
        job.task(name=task)(noop)
    return job


def rows(model: type[JobRow] | type[Task]) -> list[dict[str, Any]]:
    return [dict(row) for row in model.objects.order_by("id").values()]


def test_a_new_job_gets_its_row_and_its_tasks() -> None:
    declare("job", "@hourly", "first", "second", mode="parallel", metadata={"team": "data"})
    assert sync(NOW) == Synced(new=("job",), preserved=(), overridden=(), removed=())

    (row,) = JobRow.objects.all()
    assert (row.id, row.schedule, row.config) == (job_id("job"), "@hourly", {"mode": "parallel"})
    assert (row.metadata, row.origin, row.version) == ({"team": "data"}, Origin.CODE, 1)
    assert row.created_at == row.updated_at == NOW
    tasks = list(Task.objects.order_by("position"))
    assert [(task.id, task.name) for task in tasks] == [
        (task_id(row.id, "first"), "first"),
        (task_id(row.id, "second"), "second"),
    ]


def test_a_second_sync_changes_nothing() -> None:
    declare("job", "@hourly", "first", "second", metadata={"team": "data"})
    sync(NOW)
    before = rows(JobRow), rows(Task)
    assert sync(LATER) == Synced(new=(), preserved=("job",), overridden=(), removed=())
    assert (rows(JobRow), rows(Task)) == before


@pytest.mark.parametrize(
    ("schedule", "tasks", "options"),
    [
        ("@daily", ("step",), {}),
        ("@hourly", ("step",), {"mode": "parallel"}),
        ("@hourly", ("step",), {"metadata": {"team": "ops"}}),
        ("@hourly", ("step", "another"), {}),
        ("@hourly", ("another",), {}),
    ],
)
def test_any_change_of_a_definition_is_one_new_version(
    schedule: str, tasks: tuple[str, ...], options: dict[str, Any]
) -> None:
    declare()
    sync(NOW)
    declare("job", schedule, *tasks, **options)
    assert sync(LATER).overridden == ("job",)
    row = JobRow.objects.get()
    assert (row.version, row.created_at, row.updated_at) == (2, NOW, LATER)
    assert sync(LATER).preserved == ("job",)


@pytest.mark.req("JOB-7")
def test_a_task_no_longer_declared_is_retired_and_returns_with_the_same_id() -> None:
    declare("job", "@hourly", "first", "second")
    sync(NOW)
    declare("job", "@hourly", "second")
    sync(LATER)
    assert list(Task.objects.current().values_list("name", "position")) == [("second", 0)]
    assert Task.objects.get(name="first").retired_at == LATER
    declare("job", "@hourly", "first", "second")
    sync(LATER)
    assert Task.objects.get(name="first").retired_at is None
    assert JobRow.objects.get().version == 3


def test_a_change_of_order_or_function_reaches_the_tasks() -> None:
    declare("job", "@hourly", "first", "second")
    sync(NOW)
    declare("job", "@hourly", "second", "first")
    sync(LATER)
    assert list(Task.objects.order_by("position").values_list("name", flat=True)) == ["second", "first"]
    registry.jobs.clear()
    job = Job("job", "@hourly")
    job.task(name="second")(other)
    sync(LATER)
    assert Task.objects.get(name="second").function == f"{__name__}.other"


def test_a_job_no_longer_declared_is_removed_once_and_returns_with_its_history() -> None:
    declare()
    sync(NOW)
    registry.jobs.clear()
    assert sync(LATER).removed == ("job",)
    assert sync(LATER + timedelta(hours=1)) == Synced((), (), (), ())
    assert JobRow.objects.get().removed_at == LATER
    declare()
    assert sync(LATER).overridden == ("job",)
    assert (JobRow.objects.get().removed_at, JobRow.objects.get().created_at) == (None, NOW)


@pytest.mark.parametrize("origin", [origin for origin in Origin if origin is not Origin.CODE])
def test_jobs_of_other_origins_are_not_changed(origin: Origin) -> None:
    saved(a_task(saved(a_job("theirs", NOW, origin=origin))))
    before = rows(JobRow), rows(Task)
    assert sync(LATER) == Synced((), (), (), ())
    assert (rows(JobRow), rows(Task)) == before


def test_code_takes_over_a_job_of_the_same_name() -> None:
    saved(a_job("job", NOW, origin=Origin.ADMIN, schedule="@daily"))
    declare()
    assert sync(LATER).overridden == ("job",)
    row = JobRow.objects.get()
    assert (row.origin, row.schedule, row.version) == (Origin.CODE, "@hourly", 2)


@pytest.mark.req("OCC-8")
@pytest.mark.parametrize("state", [{"enabled": False}, {"paused_at": NOW}])
def test_disabled_and_paused_survive_a_change_of_code(state: dict[str, Any]) -> None:
    declare()
    sync(NOW)
    JobRow.objects.update(**state)
    declare("job", "@daily")
    sync(LATER)
    assert JobRow.objects.filter(**state).exists()


def test_one_job_without_tasks_stops_the_sync_before_anything_is_written() -> None:
    declare("good")
    Job("empty", "@hourly")
    with pytest.raises(DefinitionError, match=r"empty: tasks=\[\]: a job needs at least one task"):
        sync(NOW)
    assert not JobRow.objects.exists()


def test_the_number_of_statements_does_not_depend_on_the_number_of_jobs() -> None:
    declare("job")
    sync(NOW)
    costs = []
    for size in (2, 60):
        for number in range(size):
            declare(f"job {size} {number}")
        with CaptureQueriesContext(connection) as queries:
            sync(NOW)
        costs.append(len(queries))
    assert costs[0] == costs[1]


@pytest.mark.req("JOB-3")
def test_a_process_that_has_not_imported_all_declarations_removes_no_job() -> None:
    declare("known")
    sync(NOW)
    partial_results: list[Synced] = []
    partial = Registry(lambda: partial_results.append(sync(LATER, registry=partial)))
    partial.discovery.run()
    assert partial_results == [Synced((), (), (), ())]
    assert JobRow.objects.registered().count() == 1
    assert sync(LATER, registry=partial).removed == ("known",), "now its registry is complete"
