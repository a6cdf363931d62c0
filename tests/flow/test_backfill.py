"""A backfill creates occurrences only for instants without a row, and does not move the cursor."""

import json
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from punctual import Context, Job
from punctual.jobs import control
from punctual.jobs.errors import DefinitionError, PunctualError
from punctual.occurrences.models import Cursor, Occurrence
from punctual.operations.models import Audit
from punctual.operations.range_actions import backfill_job
from punctual.recovery.backfill import Backfilled
from punctual.recovery.requester import Requester
from punctual.recovery.time_range import TimeRange
from punctual.recovery.verification.verify import verify
from tests.harness import Harness

pytestmark = pytest.mark.req("REC-5")

BY = Requester("ada", "new data")
DAY = datetime(2026, 1, 4, tzinfo=UTC)  # the day before the harness begins
HOUR = timedelta(hours=1)


def noop(ctx: Context) -> None: ...


@pytest.fixture
def hourly(harness: Harness) -> Harness:
    Job("job", "0 * * * *").task(noop)
    harness.sync()
    harness.tick()
    harness.now = harness.now.replace(hour=15)
    harness.tick()
    harness.work()
    return harness


def fill(harness: Harness, since: datetime, until: datetime, *, dry_run: bool = False) -> Backfilled:
    return backfill_job(
        control.get_job("job"), TimeRange(since, until), requester=BY, now=harness.now, dry_run=dry_run
    )


def test_instants_before_the_job_existed_are_run_in_order(hourly: Harness) -> None:
    before = Cursor.objects.values().get()
    rows = Occurrence.objects.count()
    dry = fill(hourly, DAY, DAY + 5 * HOUR, dry_run=True)
    assert Occurrence.objects.count() == rows, "a dry run writes nothing"
    assert fill(hourly, DAY, DAY + 5 * HOUR) == dry == Backfilled(6, 6, 0, DAY, DAY + 5 * HOUR)
    assert Cursor.objects.values().get() == before
    for _ in range(2):
        hourly.pass_time(seconds=1)
        hourly.tick()
        hourly.work()
    created = list(Occurrence.objects.filter(cause="backfill").order_by("run_at"))
    assert [row.scheduled_for for row in created] == [DAY + number * HOUR for number in range(6)]
    assert {row.state for row in created} == {"completed"}
    assert {(row.requested_by, row.request_reason) for row in created} == {("ada", "new data")}
    assert list(verify(control.get_job("job"), now=hourly.now)) == []
    assert list(Audit.objects.values_list("action", "count")) == [("backfill", 6)]


def test_instants_with_a_row_are_left_alone_and_a_second_backfill_adds_nothing(
    hourly: Harness,
) -> None:
    begin = hourly.now.replace(hour=10, minute=0, second=0)
    first = fill(hourly, begin, hourly.now)
    assert (first.instants, first.created, first.existing) == (6, 3, 3)
    again = fill(hourly, begin, hourly.now)
    assert (again.created, again.existing) == (0, 6)


def test_instants_ahead_of_the_cursor_are_not_filled_in(hourly: Harness) -> None:
    assert fill(hourly, hourly.now, hourly.now + 48 * HOUR) == Backfilled()


def test_instants_of_an_outage_are_left_to_recovery(hourly: Harness) -> None:
    before, planned = Cursor.objects.values().get(), hourly.now
    hourly.pass_time(hours=5)
    assert fill(hourly, planned, hourly.now) == Backfilled()
    assert Cursor.objects.values().get() == before
    hourly.tick()
    assert not Occurrence.objects.filter(cause="backfill").exists()
    late = Occurrence.objects.filter(scheduled_for__gt=planned)
    assert late.filter(cause="recovery").count() == 1, "the last of them, by the strategy of the job"
    assert list(verify(control.get_job("job"), now=hourly.now)) == []


def test_instants_of_a_missed_range_get_rows_linked_to_it(harness: Harness) -> None:
    Job("job", "* * * * *", recovery="mark_as_missed", overlap="allow").task(noop)
    harness.sync()
    harness.tick()
    harness.pass_time(minutes=3000)
    harness.tick()
    (missed,) = Occurrence.objects.exclude(spans_until=None)
    assert missed.spans_until is not None
    done = fill(harness, missed.spans_until - timedelta(minutes=4), missed.spans_until)
    assert (done.created, done.existing) == (5, 0)
    created = Occurrence.objects.filter(cause="backfill")
    assert set(created.values_list("parent_id", flat=True)) == {missed.id}
    assert fill(harness, missed.spans_until - timedelta(minutes=4), missed.spans_until).created == 0
    assert list(verify(control.get_job("job"), now=harness.now)) == []


def test_an_invalid_range_and_a_removed_job_are_refused(hourly: Harness) -> None:
    with pytest.raises(DefinitionError, match="expected an instant up to the end of the range"):
        fill(hourly, DAY + HOUR, DAY)
    job = control.get_job("job")
    job.removed_at = DAY
    with pytest.raises(PunctualError, match="not planned by beats"):
        backfill_job(job, TimeRange(DAY, DAY), requester=BY, now=hourly.now)


@pytest.mark.req("OPS-3")
def test_the_command_fills_in_instants_with_a_dry_run(hourly: Harness) -> None:
    words = ["backfill", "job", "--from", DAY.isoformat(), "--to", (DAY + 5 * HOUR).isoformat(), "--json"]
    for extra, rows in (["--dry-run"], 0), ([], 6):
        out = StringIO()
        call_command("punctual", *words, *extra, stdout=out)
        assert json.loads(out.getvalue())["created"] == 6
        assert Occurrence.objects.filter(cause="backfill").count() == rows
    with pytest.raises(CommandError, match="expected an instant such as"):
        call_command("punctual", "backfill", "job", "--from", "yesterday", "--to", "today")
