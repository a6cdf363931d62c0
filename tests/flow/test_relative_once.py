"""`@once +1h` counts from the edit that wrote it, however old the job is (CHX-10)."""

import logging
from datetime import datetime, timedelta

import pytest

from punctual import Context, Job
from punctual.jobs.declaration.registry import registry
from punctual.jobs.models import Job as JobRow
from punctual.recovery.verification.verify import verify
from tests.harness import Harness

pytestmark = [pytest.mark.django_db, pytest.mark.req("CHX-10")]

HOUR = timedelta(hours=1)


def step(ctx: Context) -> None: ...


def declare(harness: Harness, schedule: str, **config: object) -> None:
    if "once" in registry.jobs:
        registry.remove_job("once")
    Job("once", schedule, **config).task(step)  # type: ignore[arg-type]
    harness.sync()


def instants(harness: Harness) -> list[datetime]:
    return [row.scheduled_for for row in harness.occurrences("once")]


@pytest.mark.parametrize("before", ["@daily", "@once +2h", "@once +1h {tag:old}"])
def test_it_counts_from_the_edit_of_an_old_job(harness: Harness, before: str) -> None:
    harness.now = harness.now.replace(microsecond=0)
    declare(harness, before)
    harness.live(hours=24 * 3, step=3600)
    known = set(instants(harness))
    edited_at = harness.now
    declare(harness, "@once +1h")
    harness.live(hours=2, step=600)
    assert set(instants(harness)) - known == {edited_at + HOUR}
    assert harness.occurrences("once")[-1].state == "completed"


def test_an_edit_of_something_else_and_a_restart_do_not_move_it(harness: Harness) -> None:
    harness.now = harness.now.replace(microsecond=0)
    declare(harness, "@daily")
    harness.pass_time(days=1)
    edited_at = harness.now
    declare(harness, "@once +1h")
    harness.pass_time(minutes=30)
    declare(harness, "@once +1h", priority=3)
    declare(harness, "@once +1h", priority=3)
    harness.live(hours=3, step=600)
    assert [at for at in instants(harness) if at > edited_at] == [edited_at + HOUR]


def test_a_job_that_is_declared_again_counts_from_then(harness: Harness) -> None:
    harness.now = harness.now.replace(microsecond=0)
    declare(harness, "@once +1h")
    harness.live(hours=2, step=600)
    registry.remove_job("once")
    Job("other", "@daily").task(step)
    harness.sync()
    assert JobRow.objects.get(name="once").removed
    harness.pass_time(days=2)
    again = harness.now
    declare(harness, "@once +1h")
    harness.live(hours=2, step=600)
    assert instants(harness)[-1] == again + HOUR


def test_an_edit_by_raw_sql_counts_from_the_edit(harness: Harness) -> None:
    declare(harness, "@daily")
    JobRow.objects.filter(name="once").update(schedule="@once +1h", updated_at=harness.now + HOUR)
    row = JobRow.objects.get(name="once")
    assert row.anchored_at == harness.now + HOUR
    JobRow.objects.filter(name="once").update(config={"priority": 1}, updated_at=harness.now + 2 * HOUR)
    row.refresh_from_db()
    assert row.anchored_at == harness.now + HOUR, "another edit does not move it"


@pytest.mark.parametrize("edited", [False, True], ids=["new", "edited"])
def test_a_schedule_that_never_fires_says_so(
    harness: Harness, caplog: pytest.LogCaptureFixture, *, edited: bool
) -> None:
    if edited:
        declare(harness, "@daily")
        harness.tick()
    with caplog.at_level(logging.WARNING, "punctual"):
        declare(harness, "@once 2020-01-01T00:00:00Z")
        harness.live(seconds=10)
    lines = [line for line in caplog.messages if line.startswith("job.over")]
    assert len(lines) == 1
    assert "schedule=@once 2020-01-01T00:00:00Z" in lines[0]


def test_a_schedule_that_ends_after_its_last_instant_is_no_surprise(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "punctual"):
        declare(harness, "@once +1m")
        harness.live(minutes=3, step=10)
    assert harness.states("once") == ["completed"]
    assert not [line for line in caplog.messages if line.startswith("job.over")]


def test_the_ledger_agrees(harness: Harness) -> None:
    harness.now = harness.now.replace(microsecond=0)
    declare(harness, "@once +1h")
    harness.live(hours=2, step=600)
    declare(harness, "@once +2h")
    harness.live(hours=3, step=600)
    assert len(instants(harness)) == 2
    job = JobRow.objects.get(name="once")
    assert not list(verify(job, now=harness.now))
