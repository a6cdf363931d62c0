"""After a test that commits, the database is as the migrations left it."""

from datetime import datetime

import pytest
from django.contrib.auth.models import Group, Permission

from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Cursor
from tests.emptying import emptier
from tests.occurrences.factories import a_job, a_task, saved

pytestmark = [pytest.mark.django_db(transaction=True)]


def test_rows_that_a_test_wrote_are_gone(now: datetime) -> None:
    database = emptier()
    saved(a_task(saved(a_job("job", now))))
    assert Cursor.objects.exists(), "a trigger wrote it"
    database.empty()
    assert [model.objects.count() for model in (Job, Task, Cursor)] == [0, 0, 0]


def test_rows_of_the_migrations_are_back_if_a_test_deleted_or_changed_them() -> None:
    database = emptier()
    groups, permissions = set(Group.objects.values_list()), set(Permission.objects.values_list())
    assert groups
    Group.objects.all().delete()
    Permission.objects.update(name="changed")
    database.empty()
    assert set(Group.objects.values_list()) == groups
    assert set(Permission.objects.values_list()) == permissions
