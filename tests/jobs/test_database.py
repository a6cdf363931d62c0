from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from punctual.jobs.clock import database_now
from punctual.jobs.database import install_triggers
from punctual.jobs.models import Job
from punctual.occurrences.models import Cursor
from tests.occurrences.factories import a_job, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-8")]

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
PLANNED = {"planned_until": NOW + timedelta(hours=1), "plan_at": NOW + timedelta(hours=1)}


@pytest.fixture
def planned() -> Job:
    job = saved(a_job("job", NOW))
    Cursor.objects.update(settled_until=NOW + timedelta(minutes=5), **PLANNED)
    return job


def cursor() -> Cursor:
    return Cursor.objects.get()


def is_due() -> bool:
    return cursor().planned_until is None and Cursor.objects.due(NOW - timedelta(days=9999)).exists()


def test_a_new_job_gets_a_cursor_that_is_due_and_settled_until_its_creation() -> None:
    saved(a_job("job", NOW))
    assert is_due()
    assert (cursor().settled_until, cursor().problem) == (NOW, "")


def test_jobs_inserted_in_bulk_get_cursors() -> None:
    Job.objects.bulk_create([a_job(f"job-{number}", NOW) for number in range(3)])
    assert Cursor.objects.due(NOW).count() == 3


@pytest.mark.parametrize(
    "change",
    [
        {"schedule": "@daily"},
        {"config": {"mode": "parallel"}},
        {"enabled": False},
        {"removed_at": NOW},
        {"metadata": {"team": "data"}},
    ],
)
def test_an_edit_of_a_column_that_plans_depend_on_makes_the_job_due(
    planned: Job, change: dict[str, Any]
) -> None:
    Job.objects.update(**change)
    assert is_due()
    assert cursor().settled_until == NOW + timedelta(minutes=5), "settled time never moves back"


@pytest.mark.parametrize(
    "change",
    [
        {"paused_at": NOW},
        {"version": 9},
        {"origin": "admin"},
        {"updated_at": NOW + timedelta(days=1)},
        {"schedule": "0 * * * *"},  # its present value
    ],
)
def test_an_edit_of_another_column_does_not_change_the_plan(planned: Job, change: dict[str, Any]) -> None:
    Job.objects.update(**change)
    assert {"planned_until": cursor().planned_until, "plan_at": cursor().plan_at} == PLANNED


def test_raw_sql_that_does_not_set_updated_at_is_stamped_with_the_database_s_now(planned: Job) -> None:
    before = database_now() - timedelta(seconds=1)
    with connection.cursor() as sql:
        sql.execute("UPDATE punctual_job SET schedule = '@daily'")
    planned.refresh_from_db()
    assert before < planned.updated_at <= database_now() + timedelta(seconds=1)


def test_an_edit_that_sets_updated_at_keeps_it(planned: Job) -> None:
    Job.objects.update(schedule="@daily", updated_at=NOW + timedelta(minutes=1))
    planned.refresh_from_db()
    assert planned.updated_at == NOW + timedelta(minutes=1)


def test_an_edit_of_one_job_leaves_the_others_planned(planned: Job) -> None:
    saved(a_job("other", NOW))
    Cursor.objects.update(**PLANNED)
    Job.objects.filter(name="other").update(schedule="@daily")
    assert list(Cursor.objects.filter(planned_until=None).values_list("job__name")) == [("other",)]


def test_deleting_a_job_deletes_its_cursor(planned: Job) -> None:
    planned.delete()
    assert not Cursor.objects.exists()


def test_installing_again_changes_nothing(planned: Job) -> None:
    install_triggers()
    install_triggers(using="default", verbosity=0)
    Job.objects.update(schedule="@daily")
    assert is_due()
