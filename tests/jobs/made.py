"""A few words → a job made in the admin, with versions, tasks and its next occurrence."""

from datetime import datetime

import pytest

from jobs.clock import database_now
from jobs.definition import Definition
from jobs.models import Job, Origin
from jobs.registry import TaskFunction, registry
from jobs.store import Change, store
from occurrences.materialize import plan_due
from occurrences.models import Occurrence
from occurrences.states import OccurrenceState
from tests.console.rows import work

FUNCTIONS = ("shop.extract", "shop.load")
LIST = "/admin/jobs/job/"


@pytest.fixture
def functions(pages: None) -> None:
    """What the operator may choose from."""
    for name in FUNCTIONS:
        registry.functions[name] = TaskFunction(name, work)


def saved(name: str = "etl", schedule: str = "0 2 * * *", **fields: object) -> Job:
    """The first call makes it, the next ones are versions of it."""
    tasks = [{"name": "extract", "function": FUNCTIONS[0], "config": {}}]
    definition = Definition.load({"name": name, "schedule": schedule, "tasks": tasks, **fields})
    store([definition], Change(Origin.ADMIN, "alice", database_now(), f"set to {schedule}"))
    plan_due(database_now())
    return Job.objects.get(name=name)


def change_url(job: Job) -> str:
    return f"{LIST}{job.pk}/change/"


def edit_url(job: Job) -> str:
    return f"{LIST}{job.pk}/edit/"


def press_url(job: Job, button: str) -> str:
    return f"{LIST}{job.pk}/press/{button}/"


def pending(job: Job) -> set[datetime]:
    rows = Occurrence.objects.filter(job=job, state=OccurrenceState.PENDING)
    return set(rows.values_list("scheduled_for", flat=True))
