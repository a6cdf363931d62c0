"""Constraint clauses: what each kind means, how sets combine, and what is refused."""

from __future__ import annotations

from datetime import datetime

import pytest

from punctual.schedules.errors import DecisionError
from punctual.schedules.kron import (
    Constraints,
    DecisionRequest,
    decide,
)
from tests.schedules.oracle import utc


@pytest.mark.req("KRN-6")
@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("hours=8-18", utc(2026, 3, 2, 18, 59), utc(2026, 3, 2, 19)),
        ("hours=1,3-4", utc(2026, 3, 2, 4), utc(2026, 3, 2, 2)),
        ("dow=MON-FRI", utc(2026, 3, 2), utc(2026, 3, 1)),
        ("dow=mon,0", utc(2026, 3, 1), utc(2026, 3, 3)),
        ("dow=7", utc(2026, 3, 1), utc(2026, 3, 2)),
        ("dow=5-7", utc(2026, 3, 1), utc(2026, 3, 5)),
        ("dow=5-7", utc(2026, 3, 7), utc(2026, 3, 2)),
        ("dom=31", utc(2026, 3, 31), utc(2026, 3, 30)),
        ("months=Jan-MAR,12", utc(2026, 12, 1), utc(2026, 4, 1)),
        ("between=09:30-17:00", utc(2026, 3, 2, 17, 0, 59), utc(2026, 3, 2, 17, 1)),
        ("between=09:30-17:00", utc(2026, 3, 2, 9, 30), utc(2026, 3, 2, 9, 29, 59)),
        ("date=2026-03-01", utc(2026, 3, 1, 23), utc(2026, 3, 2)),
        ("date=2026-03-01,2026-03-03", utc(2026, 3, 3), utc(2026, 3, 2)),
        ("dates=2026-12-24..2026-12-31", utc(2026, 12, 31, 23), utc(2027, 1, 1)),
        ("dates=2026-12-24..2026-12-26,2027-01-01", utc(2027, 1, 1), utc(2026, 12, 27)),
        (" hours = 8 ; hours = 9 ", utc(2026, 3, 2, 9), utc(2026, 3, 2, 10)),
    ],
)
def test_each_kind_of_clause(text: str, matching: datetime, other: datetime) -> None:
    def allows(constraints: Constraints, at: datetime) -> bool:
        return not decide(DecisionRequest("x", at, constraints=constraints)).unschedulable

    assert allows(Constraints.parse(only=(text,)), matching)
    assert not allows(Constraints.parse(only=(text,)), other)
    assert not allows(Constraints.parse(avoid=(text,)), matching)
    assert allows(Constraints.parse(avoid=(text,)), other)


@pytest.mark.req("KRN-6")
def test_one_only_set_must_match_entirely_and_any_avoid_clause_rejects() -> None:
    def allows(at: datetime, **sets: tuple[str, ...]) -> bool:
        return not decide(
            DecisionRequest("x", at, "Europe/Berlin", constraints=Constraints(**sets))
        ).unschedulable

    monday_nine = utc(2026, 3, 2, 8)
    sets = ("dow=MON;hours=10", "dow=TUE;hours=9")
    assert not allows(monday_nine, only=sets)
    assert allows(monday_nine, only=(*sets, "dow=MON;hours=9"))
    assert not allows(monday_nine, avoid=("dow=SUN;hours=9",))
    assert allows(monday_nine, avoid=("dow=SUN;hours=8",))
    assert not allows(monday_nine, only=("hours=9",), avoid=("dow=MON",))


@pytest.mark.req("KRN-6")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "hours",
        "hours=",
        "hours=24",
        "hours=22-4",
        "hours=1-2-3",
        "hours=٣",
        "dow=8",
        "dow=7-1",
        "dow=FRI-MON",
        "dow=SAT-SUN",
        "dow=MONDAY",
        "dom=0",
        "dom=32",
        "months=13",
        "between=9:00-17:00",
        "between=09:00",
        "between=17:00-09:00",
        "between=24:00-24:00",
        "date=2026-02-30",
        "date=2026-3-1",
        "date=2026-03-01..2026-03-02",
        "dates=x..y",
        "dates=2026-03-02..2026-03-01",
        "weekday=1",
        "hours=1;",
        "hours=" + "9" * 5000,
        "date=٢٠٢٦-03-01",
    ],
)
def test_clauses_outside_the_grammar_are_refused(text: str) -> None:
    with pytest.raises(DecisionError) as caught:
        Constraints.parse(only=(text,))
    assert caught.value.kind == "invalid_constraint"
    with pytest.raises(DecisionError) as again:
        decide(DecisionRequest("job", utc(2026, 3, 1), constraints=Constraints(avoid=(text,))))
    assert again.value.kind == "invalid_constraint"
