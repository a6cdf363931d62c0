"""Bars and 95th percentile of the newest outcomes, read without scanning a long history."""

import re
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from punctual.console.definitions.history import MAX_OUTCOMES, Ended, histories, outcome_bars, p95
from punctual.console.kit.display import NOTHING
from punctual.occurrences.states import OccurrenceState as S
from tests.console.ledger_rows import make_job, make_occurrence

pytestmark = pytest.mark.req("OPS-2")

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)


def ended(took: float | None, state: S = S.COMPLETED) -> Ended:
    at = datetime.fromisoformat("2026-01-05T12:00:00+00:00")
    return Ended(uuid4(), state, "", at, None if took is None else took * SECOND)


@pytest.mark.django_db
def test_each_job_has_its_own_newest_in_two_statements(now: datetime) -> None:
    long, short, none = (make_job(name, now) for name in ("long", "short", "none"))
    for minute in range(MAX_OUTCOMES + 7):
        make_occurrence(long, now - minute * MINUTE)
    make_occurrence(long, now + MINUTE, S.PENDING)
    last = make_occurrence(short, now - 500 * MINUTE, S.FAILED)
    with CaptureQueriesContext(connection) as queries:
        found = histories([long.pk, short.pk, none.pk])
    assert len(queries) == 2
    assert [one.scheduled_for for one in found[long.pk]] == [
        now - minute * MINUTE for minute in range(MAX_OUTCOMES)
    ]
    assert [(one.id, one.state, one.took) for one in found[short.pk]] == [(last.pk, S.FAILED, SECOND)]
    assert none.pk not in found


@pytest.mark.django_db
def test_no_jobs_have_no_history() -> None:
    assert histories([]) == {}


@pytest.mark.parametrize(
    ("took", "expected"),
    [([], None), ([None], None), ([3.0], 3.0), ([*range(1, 21)], 19), ([*range(1, 101)], 95)],
)
def test_p95_is_the_nearest_rank(took: list[float | None], expected: float | None) -> None:
    found = p95([ended(one) for one in took])
    assert (found and found.total_seconds()) == expected


def test_the_height_of_a_bar_is_its_duration_and_the_newest_is_right() -> None:
    text = outcome_bars([ended(10, S.FAILED), ended(5), *[ended(1) for _ in range(MAX_OUTCOMES - 2)]])
    places = [float(x) for x in re.findall(r'<rect class="bar [^"]+" x="([\d.]+)%"', text)]
    looks = re.findall(r'<rect class="bar (\w+)"', text)
    heights = [float(one) for one in re.findall(r'<rect class="bar.*?height="([\d.]+)"', text)]
    assert len(places) == MAX_OUTCOMES
    assert places == sorted(places)
    assert looks[-2:] == ["good", "bad"]
    assert heights[-1] == max(heights) > heights[-2] > heights[0]
    assert 'aria-label="last 20: 19 completed, 1 failed"' in text


def test_no_outcome_is_a_dash() -> None:
    assert outcome_bars([]) == NOTHING
