"""Several processes sync their jobs at once, or while a beat plans."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from django.db import connection, transaction

from punctual import Job
from punctual.jobs.declaration.registry import registry
from punctual.jobs.declaration.sync import sync
from punctual.jobs.models import Job as JobRow
from punctual.jobs.models import JobVersion, Task
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.planning.materialize import Planned, plan_due
from tests.harness import Harness
from tests.race.threads import TIMEOUT, at_once, before_commit, names, wait_until_blocked


def noop(ctx: object) -> None: ...


def other(ctx: object) -> None: ...


def declare(*jobs: str, schedule: str = "0 2 * * *") -> None:
    for name in jobs:
        job = Job(name, schedule)
        job.task(name="first")(noop)
        job.task(name="second")(other)


@pytest.mark.req("JOB-10")
def test_four_processes_that_sync_at_once_write_one_set_of_rows(harness: Harness) -> None:
    declare(*names(60))
    results = at_once(*(harness.sync for _ in range(4)))

    assert (JobRow.objects.count(), Task.objects.count(), Cursor.objects.count()) == (60, 120, 60)
    assert {row.version for row in JobRow.objects.all()} == {1}
    for result in results:
        assert sorted((*result.new, *result.preserved)) == list(names(60))
        assert (result.overridden, result.removed) == ((), ())


@pytest.mark.req("JOB-10")
def test_four_processes_that_sync_the_same_change_make_one_version(harness: Harness) -> None:
    declare(*names(40), "gone")
    harness.sync()
    with registry.isolated():
        declare(*names(40), schedule="0 3 * * *")
        results = at_once(*(harness.sync for _ in range(4)))

    kept = JobRow.objects.filter(removed_at=None)
    assert {(row.version, row.schedule) for row in kept} == {(2, "0 3 * * *")}
    assert sum(len(result.overridden) for result in results) == 40
    assert [result.removed for result in results].count(("gone",)) == 1


@pytest.mark.req("JOB-10")
def test_a_change_that_arrives_while_a_beat_plans_waits_for_it_without_a_deadlock(
    harness: Harness,
) -> None:
    declare(*names(5))
    harness.sync()
    planned, go_on = Event(), Event()

    def plan() -> Planned:
        try:
            with transaction.atomic():
                result = plan_due(harness.now)
                planned.set()
                assert go_on.wait(TIMEOUT)
            return result
        finally:
            connection.close()

    def change() -> tuple[str, ...]:
        try:
            return sync(harness.now).overridden
        finally:
            connection.close()

    with registry.isolated(), ThreadPoolExecutor(2) as pool:
        declare(*names(5), schedule="0 3 * * *")
        planning = pool.submit(plan)
        assert planned.wait(TIMEOUT)
        changing = pool.submit(change)
        try:
            wait_until_blocked()
        finally:
            go_on.set()
        assert planning.result(TIMEOUT).instants == 5
        assert changing.result(TIMEOUT) == tuple(names(5))


@pytest.mark.req("JOB-5", "OCC-8")
@pytest.mark.parametrize("raw_first", [True, False])
def test_an_edit_of_a_task_by_raw_sql_and_a_sync_of_its_job_make_two_versions_without_a_deadlock(
    harness: Harness, *, raw_first: bool
) -> None:
    declare("job")
    harness.sync()
    harness.tick()
    harness.pass_time(seconds=1)

    def edit() -> int:
        return Task.objects.filter(name="first").update(config={"queue": "raw"})

    def change() -> int:
        return len(harness.sync().overridden)

    with registry.isolated():
        declare("job", schedule="0 3 * * *")
        calls = (edit, change) if raw_first else (change, edit)
        assert before_commit(*calls) == (1, 1)
        harness.tick()
    job = JobRow.objects.get()
    versions = list(JobVersion.objects.order_by("number"))
    assert [row.number for row in versions] == [1, 2, 3]
    assert job.version == 3
    assert {row.author for row in versions} == {"code", "sql"}
    assert set(Occurrence.objects.filter(state="pending").values_list("job_version", flat=True)) == {3}


@pytest.mark.req("JOB-5", "OCC-8")
def test_two_beats_that_plan_an_edited_job_write_its_version_once(harness: Harness) -> None:
    declare(*names(20))
    harness.sync()
    harness.tick()
    Task.objects.filter(name="first").update(config={"queue": "raw"})
    at_once(*(lambda: plan_due(harness.now) for _ in range(4)))
    assert {row.version for row in JobRow.objects.all()} == {2}
    assert JobVersion.objects.filter(author="sql").count() == 20
