"""Several processes sync their jobs at once, or while a beat plans."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from django.db import connection, transaction

from punctual import Job
from punctual.jobs.declaration.registry import registry
from punctual.jobs.declaration.sync import sync
from punctual.jobs.models import Job as JobRow
from punctual.jobs.models import Task
from punctual.occurrences.models import Cursor
from punctual.occurrences.planning.materialize import Planned, plan_due
from tests.harness import Harness
from tests.race.threads import TIMEOUT, at_once, names, wait_until_blocked


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
