"""Several processes create a job of one name at the same time, each with another definition."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from punctual.jobs.definition.document import Definition, TaskDefinition
from punctual.jobs.models import Job, JobVersion, Origin
from punctual.jobs.store.definitions import Change, Stored, store
from punctual.jobs.store.rows import definition_of
from tests.race.threads import at_once

pytestmark = [pytest.mark.postgres]

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def maker(name: str, number: int) -> Callable[[], Stored]:
    tasks = tuple(TaskDefinition(f"task-{number}-{step}", "some.function") for step in range(number + 1))
    wanted = Definition(name, f"{number} * * * *", {}, {"by": str(number)}, tasks)
    change = Change(Origin.ADMIN, f"editor-{number}", NOW + timedelta(microseconds=number))
    return lambda: store([wanted], change)


@pytest.mark.req("JOB-5")
def test_the_rows_are_one_of_the_definitions_and_every_version_follows_from_the_one_before(
    transactional_db: None,
) -> None:
    for attempt in range(6):
        name = f"job-{attempt}"
        results = at_once(*(maker(name, number) for number in range(4)))

        assert sorted((len(item.new), len(item.changed)) for item in results) == [(0, 1)] * 3 + [(1, 0)]
        job = Job.objects.get(name=name)
        versions = list(JobVersion.objects.filter(job=job).order_by("number"))
        assert [row.number for row in versions] == [1, 2, 3, 4]
        assert definition_of(job, job.tasks.all()).to_json() == versions[-1].after
        for older, newer in itertools.pairwise(versions):
            assert newer.before == older.after
