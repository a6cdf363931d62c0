from collections.abc import Set
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.models import Job
from occurrences.admission import Admission, Facts, admit
from occurrences.due import Due
from occurrences.models import Cause
from tests.occurrences.ledger import a_job, an_occurrence, as_due

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
JOBS = [a_job(f"job-{number}", NOW) for number in range(4)]
moments = count()


def due(job: Job, overlap: str = "skip", cause: Cause = Cause.SCHEDULE) -> Due:
    at = NOW + timedelta(seconds=next(moments))
    return as_due(an_occurrence(job, at, config={"overlap": overlap}, cause=cause))


def admitted(*rows: Due, busy: Set[str] = frozenset(), idle: Set[str] = frozenset()) -> Admission:
    return admit(rows, Facts(NOW, {row.job_id for row in rows} - idle, busy))


def test_nothing_due_admits_nothing() -> None:
    assert admitted() == Admission()


@pytest.mark.req("OCC-4")
@pytest.mark.parametrize(
    ("overlap", "fired", "queued", "skipped"), [("skip", 1, 0, 2), ("queue", 1, 2, 0), ("allow", 3, 0, 0)]
)
def test_three_due_at_once_of_a_free_job(overlap: str, fired: int, queued: int, skipped: int) -> None:
    rows = [due(JOBS[0], overlap) for _ in range(3)]
    result = admitted(*rows)
    assert result.fire == tuple(rows[:fired]), "the first in line starts"
    assert result.queue.get("overlap", []) == rows[fired : fired + queued]
    assert result.skip == ({"overlap": [row.id for row in rows[1:]]} if skipped else {})


@pytest.mark.req("OCC-4")
@pytest.mark.parametrize(("overlap", "place"), [("skip", "skip"), ("queue", "queue"), ("allow", "fire")])
def test_one_due_of_a_busy_job(overlap: str, place: str) -> None:
    row = due(JOBS[0], overlap)
    result = admitted(row, busy={row.job_id})
    found = {
        "fire": list(result.fire),
        "queue": result.queue.get("overlap", []),
        "skip": result.skip.get("overlap", []),
    }
    assert {name for name, rows in found.items() if rows} == {place}


@pytest.mark.req("OCC-4")
def test_a_job_that_allows_overlap_does_not_make_its_exclusive_occurrences_wait() -> None:
    shared, exclusive = due(JOBS[0], "allow"), due(JOBS[0], "skip")
    assert admitted(shared, exclusive).fire == (shared, exclusive)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"removed_at": NOW}, "removed"),
        ({"enabled": False}, "stopped"),
        ({"paused_at": NOW}, "paused"),
        ({"removed_at": NOW, "enabled": False, "paused_at": NOW}, "removed"),
        ({"enabled": False, "paused_at": NOW}, "stopped"),
    ],
)
@pytest.mark.parametrize("cause", Cause)
def test_what_holds_a_job_skips_its_occurrences_except_those_somebody_asked_for(
    state: dict[str, object], reason: str, cause: Cause
) -> None:
    row = due(a_job("held", NOW, **state), cause=cause)
    result = admitted(row)
    replayed = cause in (Cause.REPLAY, Cause.BACKFILL)
    if cause is Cause.MANUAL or (replayed and reason != "removed"):
        assert result == Admission((row,))
    else:
        assert result == Admission(skip={reason: [row.id]})


@pytest.mark.parametrize("cause", Cause)
def test_a_job_without_tasks_cannot_run_whoever_asks(cause: Cause) -> None:
    row = due(JOBS[0], cause=cause)
    assert admitted(row, idle={row.job_id}) == Admission(skip={"no tasks": [row.id]})


def test_a_skipped_occurrence_does_not_take_the_slot() -> None:
    held = a_job("held", NOW, paused_at=NOW)
    skipped, manual = due(held), due(held, cause=Cause.MANUAL)
    result = admitted(skipped, manual)
    assert (result.fire, result.skip) == ((manual,), {"paused": [skipped.id]})


@pytest.mark.req("OCC-4")
@given(
    st.lists(st.tuples(st.sampled_from(JOBS), st.sampled_from(["skip", "queue", "allow"])), max_size=30),
    st.sets(st.sampled_from([str(job.id) for job in JOBS])),
)
def test_never_two_exclusive_of_one_job_and_nobody_is_forgotten(
    wanted: list[tuple[Job, str]], busy: set[str]
) -> None:
    rows = [due(job, overlap) for job, overlap in wanted]
    result = admitted(*rows, busy=busy)

    exclusive = [row.job_id for row in result.fire if row.exclusive]
    assert len(exclusive) == len(set(exclusive))
    assert not busy.intersection(exclusive)
    skipped = [id_ for ids in result.skip.values() for id_ in ids]
    placed = [row.id for row in (*result.fire, *result.queue.get("overlap", []))] + skipped
    assert sorted(placed) == sorted(row.id for row in rows)
    assert [row.run_at for row in result.fire] == sorted(row.run_at for row in result.fire)
