"""Jobs are edited while beats fire: the ledger equals what the version history owes."""

from datetime import datetime, timedelta
from itertools import count, pairwise

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from punctual import Context, Job, StaleVersionError, schedules
from punctual.jobs import control
from punctual.jobs.config.choices import Update
from punctual.jobs.declaration.registry import TaskFunction, registry
from punctual.jobs.definition.document import Definition, TaskDefinition
from punctual.jobs.errors import DefinitionError
from punctual.jobs.ledger_interface import connected_ledger
from punctual.jobs.models import JobVersion, Origin, Task
from punctual.jobs.store.definitions import Change, store
from punctual.jobs.store.update_policy import UpdatePolicy
from punctual.occurrences.models import Occurrence
from tests.harness import Harness

SCHEDULES = ["* * * * *", "*/2 * * * *", "*/15 * * * * *", "@every 50s", "0 13 * * *", "30 * * * * *"]
numbers = count()


def noop(ctx: Context) -> None: ...


def definition(name: str, schedule: str, *, enabled: bool = True, tasks: int = 1) -> Definition:
    steps = tuple(TaskDefinition(f"step-{number}", f"{__name__}.noop") for number in range(tasks))
    config = {"overlap": "allow", "recovery": "execute_all"}
    return Definition(name, schedule, config, {}, steps, enabled=enabled)


def change(now: datetime, policy: Update = Update.IMMEDIATE) -> Change:
    return Change(Origin.ADMIN, "editor", now, reason="test", policy=UpdatePolicy(policy))


def owed_instants(name: str, until: datetime) -> list[datetime]:
    """Computed from the version rows: each definition owes its instants while it was the current one."""
    versions = list(JobVersion.objects.filter(job__name=name).order_by("number"))
    ends = [row.created_at for row in versions[1:]] + [until]
    born = versions[0].created_at
    instants: list[datetime] = []
    for row, end in zip(versions, ends, strict=True):
        if row.after["enabled"]:
            schedule = schedules.parse(row.after["schedule"], reference=born, trigger_id=name)
            instants += schedule.between(row.created_at, end)
    return instants


edits = st.lists(
    st.tuples(
        st.sampled_from([1, 7, 20, 45, 60, 200]),
        st.one_of(
            st.just("tick"),
            st.just("two ticks"),
            st.just("nothing"),
            st.tuples(st.sampled_from(SCHEDULES), st.booleans()),
        ),
    ),
    min_size=3,
    max_size=12,
)


@pytest.mark.req("JOB-6")
@pytest.mark.req("OCC-5")
@given(edits)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_edits_the_ledger_equals_the_version_history(
    harness: Harness, steps: list[tuple[int, object]]
) -> None:
    name = f"job-{next(numbers)}"
    registry.add_function(TaskFunction(f"{__name__}.noop", noop))
    store([definition(name, SCHEDULES[0])], change(harness.now))
    for seconds, action in steps:
        harness.pass_time(seconds=seconds)
        match action:
            case "tick":
                harness.tick()
                harness.work()
            case "two ticks":
                harness.tick(sweeping=False)
                harness.tick(sweeping=False)
            case (str(schedule), bool(enabled)):
                store([definition(name, schedule, enabled=enabled)], change(harness.now))
    harness.pass_time(seconds=30)
    harness.tick()
    harness.work()

    rows = [row for row in harness.occurrences(name) if row.scheduled_for <= harness.now]
    assert [row.scheduled_for for row in rows] == owed_instants(name, harness.now)
    assert not [row for row in rows if row.state == "pending"]


@pytest.mark.req("JOB-6")
def test_graceful_keeps_the_earliest_pending_occurrence(harness: Harness) -> None:
    registry.add_function(TaskFunction(f"{__name__}.noop", noop))
    store([definition("job", "0 13 * * *")], change(harness.now))
    harness.tick()
    (kept,) = harness.occurrences("job")
    harness.pass_time(seconds=10)
    store([definition("job", "30 13 * * *")], change(harness.now, Update.GRACEFUL))
    assert harness.occurrences("job") == [kept]
    harness.now = kept.scheduled_for
    harness.tick()
    harness.work()
    first, second = harness.occurrences("job")
    assert (first.id, first.state, first.job_version) == (kept.id, "completed", 1)
    assert second.scheduled_for == kept.scheduled_for + timedelta(minutes=30)
    assert second.job_version == 2


@pytest.mark.req("JOB-6")
def test_windowed_changes_only_instants_within_the_horizon(harness: Harness) -> None:
    registry.add_function(TaskFunction(f"{__name__}.noop", noop))
    store([definition("job", "0 9 1 3 *")], change(harness.now))
    harness.tick()
    (far,) = harness.occurrences("job")
    harness.pass_time(seconds=1)
    store([definition("job", "0 13 * * *")], change(harness.now, Update.WINDOWED))
    near, kept = harness.occurrences("job")
    assert (kept.id, kept.job_version, near.job_version) == (far.id, 1, 2)
    assert near.scheduled_for < harness.now + timedelta(days=7) < kept.scheduled_for


@pytest.mark.req("JOB-6")
def test_the_preview_equals_the_edit_and_a_second_edit_changes_nothing(harness: Harness) -> None:
    registry.add_function(TaskFunction(f"{__name__}.noop", noop))
    store([definition("job", "*/15 * * * * *")], change(harness.now))
    harness.tick()
    before = {row.scheduled_for for row in harness.occurrences("job")}
    wanted = definition("job", "*/20 * * * * *")
    (diff,) = connected_ledger().preview([wanted], policy=UpdatePolicy(), now=harness.now)
    assert {row.scheduled_for for row in harness.occurrences("job")} == before, "a preview writes nothing"
    store([wanted], change(harness.now))
    after = {row.scheduled_for for row in harness.occurrences("job")}
    assert set(diff.added) == after - before
    assert set(diff.removed) == before - after
    assert set(diff.kept) == before & after
    assert store([wanted], change(harness.now)).preserved == ("job",)
    with transaction.atomic():
        connected_ledger().replan([control.get_job("job").id], policy=UpdatePolicy(), now=harness.now)
    assert {row.scheduled_for for row in harness.occurrences("job")} == after


@pytest.mark.req("JOB-5")
def test_the_second_of_two_editors_gets_an_error_and_no_edit_is_lost(harness: Harness) -> None:
    registry.add_function(TaskFunction(f"{__name__}.noop", noop))
    store([definition("job", "@hourly")], change(harness.now))
    store([definition("job", "@daily")], change(harness.now), expected={"job": 1})
    with pytest.raises(StaleVersionError) as caught:
        store([definition("job", "@weekly")], change(harness.now), expected={"job": 1})
    assert (caught.value.expected, caught.value.actual) == (1, 2)
    job = control.get_job("job")
    assert (job.schedule, job.version) == ("@daily", 2)
    assert [row.after["schedule"] for row in job.versions.order_by("number")] == ["@hourly", "@daily"]
    for older, newer in pairwise(job.versions.order_by("number")):
        assert newer.before == older.after


@pytest.mark.req("JOB-5")
def test_a_running_occurrence_keeps_the_version_it_started_with(harness: Harness) -> None:
    registry.add_function(TaskFunction(f"{__name__}.noop", noop))
    store([definition("job", "* * * * *")], change(harness.now))
    harness.tick()
    harness.pass_time(seconds=30)
    harness.tick()
    store([definition("job", "@daily", tasks=3)], change(harness.now))
    harness.work()
    first = harness.occurrences("job")[0]
    assert (first.state, first.job_version, len(harness.runs("job"))) == ("completed", 1, 1)


@pytest.mark.req("JOB-7")
def test_tasks_added_and_retired_count_from_the_next_occurrence_and_history_stays(harness: Harness) -> None:
    registry.add_function(TaskFunction(f"{__name__}.noop", noop))
    store([definition("job", "* * * * *", tasks=2)], change(harness.now))
    harness.live(seconds=30)
    store([definition("job", "* * * * *", tasks=1)], change(harness.now))
    harness.live(seconds=60)
    store([definition("job", "* * * * *", tasks=3)], change(harness.now))
    harness.live(seconds=60)

    steps = [run.task.name for run in harness.runs("job")]
    assert steps == ["step-0", "step-1", "step-0", "step-0", "step-1", "step-2"]
    assert Task.objects.filter(job__name="job", retired_at=None).count() == 3
    assert harness.finished("job") == ["completed"] * 3


def test_downtime_during_an_edit_owes_both_definitions(harness: Harness) -> None:
    registry.add_function(TaskFunction(f"{__name__}.noop", noop))
    store([definition("job", "* * * * *")], change(harness.now))
    harness.tick()
    harness.pass_time(minutes=5)
    store([definition("job", "*/2 * * * *")], change(harness.now))
    harness.pass_time(minutes=5)
    harness.tick()
    harness.work()

    past = [row for row in harness.occurrences("job") if row.scheduled_for <= harness.now]
    assert [row.scheduled_for for row in past] == owed_instants("job", harness.now)
    assert len(past) == 8
    assert {row.state for row in past} == {"completed"}
    assert Occurrence.objects.filter(cause="recovery").count() >= 7


def test_code_takes_over_jobs_of_other_origins_and_not_the_reverse(harness: Harness) -> None:
    registry.add_function(TaskFunction(f"{__name__}.noop", noop))
    store([definition("job", "@hourly")], change(harness.now))
    Job("job", "@daily").task(name="step-0")(noop)
    assert harness.sync().overridden == ("job",)
    with pytest.raises(DefinitionError, match="declared in code; change it there"):
        store([definition("job", "@weekly")], change(harness.now))
    assert control.get_job("job").schedule == "@daily"
