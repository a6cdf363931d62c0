"""Edits keep the start time that an operator chose for a planned occurrence."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from punctual import Context
from punctual.jobs import control
from punctual.jobs.config.choices import Update
from punctual.jobs.declaration.registry import TaskFunction, registry
from punctual.jobs.definition.document import Definition, TaskDefinition
from punctual.jobs.ledger_interface import connected_ledger
from punctual.jobs.models import Job, Origin
from punctual.jobs.store.definitions import Change, store
from punctual.jobs.store.update_policy import UpdatePolicy
from punctual.occurrences.models import Occurrence
from punctual.occurrences.operator import reschedule
from punctual.recovery.verification.verify import verify
from tests.harness import Harness

pytestmark = pytest.mark.req("OCC-9")

HOURLY, DAILY = "0 * * * *", "0 13 * * *"


def noop(ctx: Context) -> None: ...


def definition(schedule: str, priority: int = 0) -> Definition:
    config = {"overlap": "allow", "priority": priority}
    return Definition(
        "job", schedule, config, {}, (TaskDefinition("step", f"{__name__}.noop"),), enabled=True
    )


def edit(harness: Harness, item: Definition, policy: Update = Update.IMMEDIATE) -> None:
    store([item], Change(Origin.ADMIN, "editor", harness.now, policy=UpdatePolicy(policy)))


def edit_row(harness: Harness, item: Definition) -> None:
    """Edit as raw SQL or `QuerySet.update` does; the next tick follows."""
    Job.objects.update(schedule=item.schedule, config=item.config, updated_at=harness.now)
    harness.tick()


@pytest.fixture
def moved(harness: Harness) -> Occurrence:
    """An occurrence of 13:00 that was moved to 14:30."""
    registry.add_function(TaskFunction(f"{__name__}.noop", noop))
    edit(harness, definition(DAILY))
    harness.tick()
    (row,) = harness.occurrences("job")
    reschedule(row.id, run_at=row.scheduled_for + timedelta(minutes=90), now=harness.now)
    harness.pass_time(seconds=10)
    return Occurrence.objects.get(pk=row.id)


@pytest.mark.parametrize("change", [edit, edit_row])
def test_an_edit_that_keeps_the_instant_keeps_its_start_time_and_changes_the_rest(
    harness: Harness, moved: Occurrence, change: Callable[[Harness, Definition], None]
) -> None:
    change(harness, definition(DAILY, priority=7))
    (row,) = harness.occurrences("job")
    assert (row.id, row.run_at, row.late_at, row.priority) == (moved.id, moved.run_at, None, 7)
    harness.now = moved.run_at
    harness.tick()
    harness.work()
    assert harness.finished("job") == ["completed"]
    assert list(verify(control.get_job("job"), now=harness.now)) == []


@pytest.mark.parametrize("change", [edit, edit_row])
def test_a_start_time_beyond_what_is_planned_ahead_is_kept(
    harness: Harness, moved: Occurrence, change: Callable[[Harness, Definition], None]
) -> None:
    change(harness, definition("30,0 * * * *"))  # 12:30 comes first; 13:00 is still named
    starts = [(row.scheduled_for, row.run_at) for row in harness.occurrences("job")]
    assert (moved.scheduled_for, moved.run_at) in starts
    assert len(starts) == 2
    for _ in range(6):
        harness.pass_time(minutes=30)
        harness.tick()
        harness.work()
    row = Occurrence.objects.get(pk=moved.id)
    assert (row.state, row.run_at) == ("completed", moved.run_at)
    assert list(verify(control.get_job("job"), now=harness.now)) == []


@pytest.mark.parametrize("change", [edit, edit_row])
def test_an_instant_that_the_new_schedule_does_not_name_is_removed_and_the_preview_says_so(
    harness: Harness, moved: Occurrence, change: Callable[[Harness, Definition], None]
) -> None:
    wanted = definition("30 13 * * *")
    (diff,) = connected_ledger().preview([wanted], policy=UpdatePolicy(), now=harness.now)
    assert diff.removed == (moved.scheduled_for,)
    change(harness, wanted)
    (row,) = harness.occurrences("job")
    assert row.scheduled_for == row.run_at == moved.scheduled_for + timedelta(minutes=30)


@pytest.mark.parametrize("policy", Update)
def test_every_policy_keeps_the_start_time(harness: Harness, moved: Occurrence, policy: Update) -> None:
    wanted = definition(DAILY, priority=3)
    (diff,) = connected_ledger().preview([wanted], policy=UpdatePolicy(policy), now=harness.now)
    assert (diff.kept, diff.removed) == ((moved.scheduled_for,), ())
    edit(harness, wanted, policy)
    (row,) = harness.occurrences("job")
    assert (row.id, row.run_at) == (moved.id, moved.run_at)


@pytest.mark.parametrize("change", [edit, edit_row])
def test_a_fixed_delay_counts_from_the_end_of_the_moved_occurrence(
    harness: Harness, change: Callable[[Harness, Definition], None]
) -> None:
    registry.add_function(TaskFunction(f"{__name__}.noop", noop))
    edit(harness, definition("delay:10m"))
    harness.tick()
    (row,) = harness.occurrences("job")
    start = row.run_at + timedelta(minutes=5)
    reschedule(row.id, run_at=start, now=harness.now)
    harness.pass_time(seconds=10)
    change(harness, definition("delay:20m"))
    harness.tick()
    assert [(row.id, row.run_at) for row in harness.occurrences("job")] == [(row.id, start)]
    harness.now = start
    harness.live(seconds=30)
    later = Occurrence.objects.get(state="pending")
    assert later.scheduled_for >= start + timedelta(minutes=20)


def test_a_stopped_job_has_no_planned_occurrence(harness: Harness, moved: Occurrence) -> None:
    edit(harness, replace(definition(DAILY), enabled=False))
    assert harness.occurrences("job") == []
