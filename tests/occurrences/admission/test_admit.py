from collections.abc import Mapping, Set
from datetime import UTC, datetime, timedelta
from itertools import count
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.jobs.models import Job
from punctual.occurrences.admission.admit import Admission, Facts, admit
from punctual.occurrences.admission.candidates import Due
from punctual.occurrences.models import Cause
from punctual.occurrences.states import CATCH_UP_CAUSES, Reason
from tests.occurrences.factories import a_job, an_occurrence, as_due

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
JOBS = [a_job(f"job-{number}", NOW) for number in range(4)]
moments = count()


def due(job: Job, overlap: str = "skip", cause: Cause = Cause.SCHEDULE) -> Due:
    at = NOW + timedelta(seconds=next(moments))
    return as_due(an_occurrence(job, at, config={"overlap": overlap}, cause=cause))


def admit_rows(
    *rows: Due, busy: Mapping[str, str] = MappingProxyType({}), idle: Set[str] = frozenset()
) -> Admission:
    return admit(rows, Facts(NOW, {row.id for row in rows if row.job_id not in idle}, busy))


def test_nothing_due_admits_nothing() -> None:
    assert admit_rows() == Admission()


@pytest.mark.req("OCC-4")
@pytest.mark.parametrize(
    ("overlap", "fired", "queued", "skipped"), [("skip", 1, 0, 2), ("queue", 1, 2, 0), ("allow", 3, 0, 0)]
)
def test_three_due_at_once_of_a_free_job(overlap: str, fired: int, queued: int, skipped: int) -> None:
    rows = [due(JOBS[0], overlap) for _ in range(3)]
    result = admit_rows(*rows)
    assert result.fire == tuple(rows[:fired]), "the earliest one starts"
    assert result.queue.get(Reason.OVERLAP, []) == rows[fired : fired + queued]
    assert result.skip == ({Reason.OVERLAP: [row.id for row in rows[1:]]} if skipped else {})


@pytest.mark.req("OCC-4")
@pytest.mark.parametrize(("overlap", "place"), [("skip", "skip"), ("queue", "queue"), ("allow", "fire")])
def test_one_due_of_a_busy_job(overlap: str, place: str) -> None:
    row = due(JOBS[0], overlap)
    result = admit_rows(row, busy={row.job_id: "schedule"})
    found = {
        "fire": list(result.fire),
        "queue": result.queue.get(Reason.OVERLAP, []),
        "skip": result.skip.get(Reason.OVERLAP, []),
    }
    assert {name for name, rows in found.items() if rows} == {place}


@pytest.mark.req("LIM-5")
@pytest.mark.parametrize("overlap", ["skip", "queue", "queue_latest", "replace"])
@pytest.mark.parametrize("active", CATCH_UP_CAUSES)
def test_a_live_one_waits_for_catch_up_whatever_the_policy(overlap: str, active: str) -> None:
    rows = [due(JOBS[0], overlap), due(JOBS[0], overlap, Cause.MANUAL)]
    result = admit_rows(*rows, busy={rows[0].job_id: active})
    assert (result.queue, result.skip) == ({Reason.CATCH_UP: rows}, {}), "none supersedes the other"


@pytest.mark.req("LIM-5")
@pytest.mark.parametrize("overlap", ["skip", "queue", "queue_latest", "replace"])
@pytest.mark.parametrize("cause", CATCH_UP_CAUSES)
def test_catch_up_waits_for_whatever_is_active_and_is_never_skipped(overlap: str, cause: str) -> None:
    rows = [due(JOBS[0], overlap, Cause(cause)) for _ in range(2)]
    result = admit_rows(*rows, busy={rows[0].job_id: "schedule"})
    assert (list(result.queue.values()), result.skip) == ([rows], {})


@pytest.mark.req("OCC-4")
def test_a_job_that_allows_overlap_does_not_make_its_exclusive_occurrences_wait() -> None:
    shared, exclusive = due(JOBS[0], "allow"), due(JOBS[0], "skip")
    assert admit_rows(shared, exclusive).fire == (shared, exclusive)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"removed_at": NOW}, Reason.REMOVED),
        ({"enabled": False}, Reason.STOPPED),
        ({"paused_at": NOW}, Reason.PAUSED),
        ({"removed_at": NOW, "enabled": False, "paused_at": NOW}, Reason.REMOVED),
        ({"enabled": False, "paused_at": NOW}, Reason.STOPPED),
    ],
)
@pytest.mark.parametrize("cause", Cause)
def test_a_paused_stopped_or_removed_job_runs_only_requested_occurrences(
    state: dict[str, object], reason: Reason, cause: Cause
) -> None:
    row = due(a_job("held", NOW, **state), cause=cause)
    result = admit_rows(row)
    replayed = cause in (Cause.REPLAY, Cause.BACKFILL)
    if cause is Cause.MANUAL or (replayed and reason is not Reason.REMOVED):
        assert result == Admission((row,))
    else:
        assert result == Admission(skip={reason: [row.id]})


@pytest.mark.parametrize("cause", Cause)
def test_a_job_without_tasks_runs_nothing_whatever_the_cause(cause: Cause) -> None:
    row = due(JOBS[0], cause=cause)
    assert admit_rows(row, idle={row.job_id}) == Admission(skip={Reason.NO_TASKS: [row.id]})


def test_a_skipped_occurrence_does_not_take_the_slot() -> None:
    held = a_job("held", NOW, paused_at=NOW)
    skipped, manual = due(held), due(held, cause=Cause.MANUAL)
    result = admit_rows(skipped, manual)
    assert (result.fire, result.skip) == ((manual,), {Reason.PAUSED: [skipped.id]})


@pytest.mark.req("OCC-4")
@given(
    st.lists(st.tuples(st.sampled_from(JOBS), st.sampled_from(["skip", "queue", "allow"])), max_size=30),
    st.sets(st.sampled_from([str(job.id) for job in JOBS])),
)
def test_never_two_exclusive_occurrences_of_one_job_and_every_row_is_decided(
    wanted: list[tuple[Job, str]], busy: set[str]
) -> None:
    rows = [due(job, overlap) for job, overlap in wanted]
    result = admit_rows(*rows, busy=dict.fromkeys(busy, "schedule"))

    exclusive = [row.job_id for row in result.fire if row.exclusive]
    assert len(exclusive) == len(set(exclusive))
    assert not busy.intersection(exclusive)
    skipped = [id_ for ids in result.skip.values() for id_ in ids]
    placed = [row.id for row in (*result.fire, *result.queue.get(Reason.OVERLAP, []))] + skipped
    assert sorted(placed) == sorted(row.id for row in rows)
    assert [row.run_at for row in result.fire] == sorted(row.run_at for row in result.fire)
