"""Make jobs that the editor can change, with versions, tasks and the next occurrence."""

from collections.abc import Collection
from datetime import datetime

import pytest

from punctual.jobs.clock import database_now
from punctual.jobs.declaration.registry import TaskFunction, registry
from punctual.jobs.definition.document import Definition
from punctual.jobs.models import Job, Origin
from punctual.jobs.store.definitions import Change, store
from punctual.occurrences.models import Occurrence
from punctual.occurrences.planning.materialize import plan_due
from punctual.occurrences.states import OccurrenceState
from tests.console.ledger_rows import work

FUNCTIONS = ("shop.extract", "shop.load")
LIST = "/admin/punctual/job/"


@pytest.fixture
def functions(pages: None) -> None:
    """Register the functions that an operator can choose."""
    for name in FUNCTIONS:
        registry.functions[name] = TaskFunction(name, work)


def saved(
    name: str = "etl", schedule: str = "0 2 * * *", *, permissions: Collection[str] = (), **fields: object
) -> Job:
    """Store a job; the first call creates it, the next ones make versions."""
    tasks = [{"name": "extract", "function": FUNCTIONS[0], "config": {}}]
    definition = Definition.load({"name": name, "schedule": schedule, "tasks": tasks, **fields})
    change = Change(Origin.ADMIN, "alice", database_now(), f"set to {schedule}", permissions=permissions)
    store([definition], change)
    plan_due(database_now())
    return Job.objects.get(name=name)


def change_url(job: Job) -> str:
    return f"{LIST}{job.pk}/change/"


def edit_url(job: Job) -> str:
    return f"{LIST}{job.pk}/edit/"


def pending(job: Job) -> set[datetime]:
    rows = Occurrence.objects.filter(job=job, state=OccurrenceState.PENDING)
    return set(rows.values_list("scheduled_for", flat=True))
