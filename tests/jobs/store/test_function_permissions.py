"""A function that can do anything needs a permission of its own, whichever way a definition is stored."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from punctual.jobs.control import start, stop
from punctual.jobs.declaration.registry import TaskFunction, registry
from punctual.jobs.definition.document import Definition
from punctual.jobs.errors import DefinitionError
from punctual.jobs.models import Job, Origin
from punctual.jobs.store.definitions import Change, restore, store
from punctual.jobs.store.function_permissions import named_permissions

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
ANYTHING = "app.do_anything"


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    with registry.isolated():
        registry.add_function(TaskFunction(ANYTHING, print, permission="app.anything"))
        registry.add_function(TaskFunction("app.step", print))
        yield


def definition(function: str = ANYTHING, schedule: str = "@daily", **fields: object) -> Definition:
    tasks = [{"name": "step", "function": function}]
    return Definition.load({"name": "job", "schedule": schedule, "tasks": tasks, **fields})


def change(origin: Origin = Origin.ADMIN, *permissions: str) -> Change:
    return Change(origin, "ann", NOW, permissions=permissions)


@pytest.mark.parametrize("origin", [Origin.ADMIN, Origin.FILE])
def test_a_new_definition_is_refused_without_the_permission(origin: Origin) -> None:
    with pytest.raises(DefinitionError, match=r"job/step: function='app\.do_anything': needs the permission"):
        store([definition()], change(origin))
    assert not Job.objects.exists()
    store([definition()], change(origin, "app.anything"))
    assert Job.objects.exists()


def test_code_may_use_every_function() -> None:
    store([definition()], change(Origin.CODE))
    assert Job.objects.exists()


@pytest.mark.parametrize("fields", [{"schedule": "@hourly"}, {"metadata": {"celery_task": "other"}}])
def test_a_stored_definition_is_not_changed_without_the_permission(fields: dict[str, Any]) -> None:
    store([definition()], change(Origin.ADMIN, "app.anything"))
    with pytest.raises(DefinitionError, match=r"needs the permission app\.anything"):
        store([definition(**fields)], change())
    assert Job.objects.get().version == 1


def test_an_old_version_is_not_restored_without_the_permission() -> None:
    store([definition()], change(Origin.ADMIN, "app.anything"))
    store([definition("app.step")], change())
    with pytest.raises(DefinitionError, match=r"needs the permission app\.anything"):
        restore("job", 1, change())
    assert restore("job", 1, change(Origin.ADMIN, "app.anything")).changed == ("job",)


def test_operators_may_still_stop_and_start_the_job() -> None:
    store([definition()], change(Origin.ADMIN, "app.anything"))
    assert stop("job", author="ann")
    assert start("job", author="ann")


def test_a_definition_that_stays_as_it_is_needs_nothing() -> None:
    store([definition()], change(Origin.ADMIN, "app.anything"))
    assert store([replace(definition(), enabled=None)], change()).preserved == ("job",)


def test_the_permissions_of_functions_are_known() -> None:
    assert named_permissions() == {"app.anything"}
