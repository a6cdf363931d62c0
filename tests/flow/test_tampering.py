"""`ledger verify` notices every way in which a ledger can be wrong (OCC-5)."""

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest

from punctual import Context, Job
from punctual.jobs import control
from punctual.occurrences.models import Cursor, Occurrence, TaskRun
from punctual.recovery.models import Pruned
from punctual.recovery.verification.coverage import Kind
from punctual.recovery.verification.verify import verify
from tests.harness import START, Harness

pytestmark = [pytest.mark.req("OCC-5")]

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def noop(ctx: Context) -> None: ...


def kinds(job: str, harness: Harness) -> set[Kind]:
    return {item.kind for item in verify(control.get_job(job), now=harness.now)}


@pytest.fixture
def ledger(harness: Harness) -> Harness:
    """Runs, a short outage, a pause and a long outage, of a job that compresses and of one that does not."""
    for name, recovery in (("job", "mark_as_missed"), ("packed", "compressed")):
        Job(name, "* * * * *", recovery=recovery, overlap="allow").task(noop)
    harness.start_at(START)
    harness.tick()
    for minutes in (1, 1, 1, 1, 1, 10, 1, 1, 1):
        harness.pass_time(minutes=minutes)
        harness.tick()
        harness.work()
    for name in ("job", "packed"):
        harness.pause(name)
    harness.pass_time(minutes=10)
    for name in ("job", "packed"):
        harness.resume(name)
    harness.pass_time(minutes=1500)
    for _ in range(3):
        harness.tick()
        harness.work()
        harness.pass_time(seconds=1)
    harness.pass_time(seconds=20)
    assert kinds("job", harness) == kinds("packed", harness) == set()
    return harness


def rows(job: str = "job", **filters: object) -> list[Occurrence]:
    return list(Occurrence.objects.filter(job__name=job, **filters).order_by("scheduled_for"))


def change(row: Occurrence, **columns: object) -> None:
    Occurrence.objects.filter(pk=row.pk).update(**columns)


def a_missing_run(_harness: Harness) -> None:
    rows(state="completed")[1].delete()


def a_missing_range(_harness: Harness) -> None:
    rows(spans_until__isnull=False)[0].delete()


def a_doubled_range(_harness: Harness) -> None:
    row = rows(spans_until__isnull=False)[0]
    row.pk = uuid4()
    row.save(force_insert=True)


def a_range_within_a_range(harness: Harness) -> None:
    row = rows(spans_until__isnull=False)[0]
    row.pk = uuid4()
    row.scheduled_for += MINUTE
    row.run_at, row.instants, row.finished_at = row.scheduled_for, row.instants - 1, harness.now
    row.save(force_insert=True)


def a_range_with_another_count(_harness: Harness) -> None:
    row = rows(spans_until__isnull=False)[0]
    change(row, instants=row.instants + 1)


def a_completed_row_without_a_success(_harness: Harness) -> None:
    TaskRun.objects.filter(occurrence=rows(state="completed")[1]).delete()


def a_completed_row_that_is_called_missed(_harness: Harness) -> None:
    change(rows(state="completed")[1], state="missed", reason="downtime")


def a_missed_row_that_is_called_completed(_harness: Harness) -> None:
    change(rows(state="missed", spans_until=None)[1], state="completed", reason="")


def a_missed_row_with_a_reason_of_admission(_harness: Harness) -> None:
    change(rows(state="missed", spans_until=None)[1], reason="overlap")


def a_skipped_row_without_a_reason(_harness: Harness) -> None:
    change(rows(reason="paused")[1], reason="")


def a_paused_row_that_is_called_missed(_harness: Harness) -> None:
    change(rows(reason="paused")[1], state="missed", reason="downtime")


def a_missed_row_that_is_called_paused(_harness: Harness) -> None:
    change(rows(state="missed", spans_until=None)[1], state="skipped", reason="paused")


def a_row_at_another_instant(_harness: Harness) -> None:
    row = rows(state="completed")[1]
    change(row, scheduled_for=row.scheduled_for + timedelta(seconds=7))


def a_compressed_run_that_is_gone(_harness: Harness) -> None:
    Occurrence.objects.filter(job__name="packed", covers__isnull=False).update(covers=None)


def a_row_that_was_never_fired(_harness: Harness) -> None:
    row = rows(state="missed", spans_until=None)[1]
    change(row, state="pending", reason="", finished_at=None, finalized_at=None)


def a_cursor_moved_to_the_next_year(harness: Harness) -> None:
    ahead = harness.now + 365 * 24 * HOUR
    Occurrence.objects.filter(job__name="job", state="pending").delete()
    Cursor.objects.filter(job__name="job").update(planned_until=ahead, plan_at=ahead)


def a_cursor_moved_back(harness: Harness) -> None:
    Cursor.objects.filter(job__name="job").update(planned_until=harness.now - HOUR)


def a_cursor_moved_back_behind_what_was_pruned(harness: Harness) -> None:
    job = control.get_job("job")
    Pruned.objects.update_or_create(job=job, defaults={"until": harness.now - 5 * MINUTE})
    past = harness.now - 24 * HOUR
    Cursor.objects.filter(job=job).update(planned_until=past, settled_until=past)


def rows_deleted_beyond_what_was_pruned(harness: Harness) -> None:
    job = control.get_job("job")
    Pruned.objects.update_or_create(job=job, defaults={"until": START + 2 * MINUTE})
    Occurrence.objects.filter(job=job, scheduled_for__lte=START + 4 * MINUTE).delete()


TAMPERINGS: list[tuple[Callable[[Harness], None], Kind]] = [
    (a_missing_run, Kind.MISSING),
    (a_missing_range, Kind.MISSING),
    (a_doubled_range, Kind.DOUBLED),
    (a_range_within_a_range, Kind.DOUBLED),
    (a_range_with_another_count, Kind.MISCOUNTED),
    (a_completed_row_without_a_success, Kind.CONTRADICTED),
    (a_completed_row_that_is_called_missed, Kind.CONTRADICTED),
    (a_missed_row_that_is_called_completed, Kind.CONTRADICTED),
    (a_missed_row_with_a_reason_of_admission, Kind.CONTRADICTED),
    (a_skipped_row_without_a_reason, Kind.CONTRADICTED),
    (a_paused_row_that_is_called_missed, Kind.UNSETTLED),
    (a_missed_row_that_is_called_paused, Kind.UNPAUSED),
    (a_row_at_another_instant, Kind.UNOWED),
    (a_compressed_run_that_is_gone, Kind.UNCOVERED),
    (a_row_that_was_never_fired, Kind.UNFIRED),
    (a_cursor_moved_to_the_next_year, Kind.MISSING),
    (a_cursor_moved_back, Kind.UNPLANNED),
    (a_cursor_moved_back_behind_what_was_pruned, Kind.REWOUND),
    (rows_deleted_beyond_what_was_pruned, Kind.MISSING),
]


@pytest.mark.parametrize(("tamper", "kind"), TAMPERINGS, ids=lambda value: getattr(value, "__name__", ""))
def test_verify_notices(ledger: Harness, tamper: Callable[[Harness], None], kind: Kind) -> None:
    tamper(ledger)
    assert kind in kinds("job", ledger) | kinds("packed", ledger)


def test_every_kind_of_difference_is_provoked() -> None:
    assert {kind for _, kind in TAMPERINGS} == set(Kind)


def test_rows_that_were_pruned_are_not_missing(ledger: Harness) -> None:
    job = control.get_job("job")
    Pruned.objects.update_or_create(job=job, defaults={"until": START + 4 * MINUTE})
    Occurrence.objects.filter(job=job, scheduled_for__lte=START + 4 * MINUTE).delete()
    assert kinds("job", ledger) == set()
