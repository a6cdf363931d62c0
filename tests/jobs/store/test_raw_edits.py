"""An edit by raw SQL becomes a version when its job is planned, and before anything of the job is fired."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from punctual.jobs.definition.document import Definition, TaskDefinition
from punctual.jobs.models import Job, JobVersion, Origin, Task
from punctual.jobs.store.definitions import Change, remove, store
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.planning.materialize import plan_due
from tests.occurrences.factories import a_job, a_task, an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("JOB-5", "OCC-8")]

NOW = datetime(2026, 1, 5, 12, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def definition(**columns: Any) -> Definition:
    task = TaskDefinition("step", "nowhere.step", {"queue": "slow"})
    return Definition("job", "*/5 * * * *", {"overlap": "allow"}, {"team": "data"}, (task,), **columns)


@pytest.fixture
def planned() -> Job:
    """A job of version 1, planned."""
    store([definition()], Change(Origin.ADMIN, "ada", NOW - timedelta(seconds=5)))
    plan_due(NOW)
    return Job.objects.get()


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)
    assert Cursor.objects.filter(planned_until=None, plan_at__lte=NOW).exists(), (
        "planning comes before firing"
    )


def versions() -> list[tuple[int, str]]:
    return list(JobVersion.objects.order_by("number").values_list("number", "author"))


# ruff: noqa: S608 - every part is ours
AT = "updated_at = '2026-01-05 12:00:30+00:00'"
EDITS = {
    "schedule": (f"UPDATE punctual_job SET schedule = '* * * * *', {AT}", "schedule"),
    "config": (f"UPDATE punctual_job SET config = '{{}}', {AT}", "config"),
    "metadata": ('UPDATE punctual_job SET metadata = \'{"team": "web"}\'', "metadata"),
    "enabled": (f"UPDATE punctual_job SET enabled = (1 = 0), {AT}", "enabled"),
    "function": ("UPDATE punctual_task SET function = 'nowhere.other'", "tasks"),
    "task config": ("UPDATE punctual_task SET config = '{}'", "tasks"),
    "retired": ("UPDATE punctual_task SET retired_at = created_at", "tasks"),
    "deleted": ("DELETE FROM punctual_task", "tasks"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_planning_writes_the_version_of_an_edit_by_raw_sql(planned: Job, edit: str) -> None:
    sql, field = EDITS[edit]
    execute(sql)
    plan_due(NOW)
    assert versions() == [(1, "ada"), (2, "sql")]
    first, second = JobVersion.objects.order_by("number")
    assert second.before == first.after
    assert {key for key in second.after if second.after[key] != first.after[key]} == {field}
    planned.refresh_from_db()
    assert planned.version == 2
    assert set(Occurrence.objects.values_list("job_version", flat=True)) <= {2}, "planned anew"


def test_a_task_whose_id_does_not_follow_from_its_name_is_left_out(planned: Job) -> None:
    """No run could refer to it."""
    execute("UPDATE punctual_task SET name = 'other'")
    plan_due(NOW)
    assert JobVersion.objects.get(number=2).after["tasks"] == []


def test_an_inserted_task_is_a_new_version(planned: Job) -> None:
    saved(a_task(planned, "second", position=1))
    plan_due(NOW)
    assert [task["name"] for task in JobVersion.objects.get(number=2).after["tasks"]] == ["step", "second"]


def test_an_inserted_job_has_a_first_version_once_it_is_planned() -> None:
    saved(a_task(saved(a_job("job", NOW))))
    plan_due(NOW)
    version = JobVersion.objects.get()
    assert (version.number, version.author, version.reason) == (1, "sql", "inserted by raw SQL")
    assert (version.before, version.after["tasks"][0]["function"]) == (None, "nowhere.step")


def test_planning_without_an_edit_writes_no_version(planned: Job) -> None:
    Cursor.objects.update(planned_until=None, plan_at=NOW)
    plan_due(NOW)
    assert versions() == [(1, "ada")]


def test_an_edit_that_another_one_takes_back_is_a_version_too(planned: Job) -> None:
    execute("UPDATE punctual_job SET metadata = '{}'")
    execute('UPDATE punctual_job SET metadata = \'{"team": "data"}\'')
    plan_due(NOW)
    planned.refresh_from_db()
    assert JobVersion.objects.filter(number=planned.version).exists()


def test_storing_after_an_edit_by_raw_sql_keeps_both_versions(planned: Job) -> None:
    execute("UPDATE punctual_task SET function = 'nowhere.other'")
    store([definition(enabled=False)], Change(Origin.ADMIN, "bob", NOW))
    assert versions() == [(1, "ada"), (2, "sql"), (3, "bob")]
    _, second, third = JobVersion.objects.order_by("number")
    assert second.after == third.before
    assert second.after["tasks"][0]["function"] == "nowhere.other"


def test_removing_after_an_edit_by_raw_sql_keeps_both_versions(planned: Job) -> None:
    execute("UPDATE punctual_task SET function = 'nowhere.other'")
    remove([planned.id], Change(Origin.ADMIN, "bob", NOW))
    assert versions() == [(1, "ada"), (2, "sql"), (3, "bob")]


def test_a_version_number_written_back_by_a_stale_save_is_not_used_again(planned: Job) -> None:
    execute("UPDATE punctual_job SET metadata = '{}'")
    plan_due(NOW)
    planned.config = {"queue": "fast"}
    planned.save()  # of version 1
    plan_due(NOW)
    planned.refresh_from_db()
    assert planned.version == 3
    assert versions() == [(1, "ada"), (2, "sql"), (3, "sql")]


def test_a_row_that_is_due_already_keeps_its_version_when_a_task_is_edited(planned: Job) -> None:
    """Planning continues after `settled_until`: what it deletes before that would be lost."""
    Cursor.objects.update(settled_until=NOW)
    due = saved(an_occurrence(planned, NOW - MINUTE / 2))
    execute("UPDATE punctual_task SET function = 'nowhere.other'")
    plan_due(NOW)
    due.refresh_from_db()
    assert due.job_version == 1


def test_configurations_that_are_no_objects_are_recorded_as_they_are(planned: Job) -> None:
    execute("UPDATE punctual_job SET config = '\"text\"'")
    execute("UPDATE punctual_task SET config = '[1]'")
    plan_due(NOW)
    after = JobVersion.objects.get(number=2).after
    assert (after["config"], after["tasks"][0]["config"]) == ("text", [1])


def test_the_task_of_another_job_changes_nothing(planned: Job) -> None:
    other = saved(a_job("other", NOW))
    task = saved(a_task(other))
    plan_due(NOW)
    Task.objects.filter(id=task.id).update(function="nowhere.other")
    assert list(Cursor.objects.filter(planned_until=None).values_list("job", flat=True)) == [
        UUID(str(other.id))
    ]
