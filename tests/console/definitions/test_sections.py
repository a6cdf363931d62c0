from datetime import datetime, timedelta

import pytest

from punctual.console.definitions.sections import MAX_NEWEST, newest_occurrences
from punctual.occurrences.states import OccurrenceState as S
from tests.console.ledger_rows import make_job, make_occurrence

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

MINUTE = timedelta(minutes=1)


def test_what_is_under_way_or_waits_is_shown_however_old_it_is(now: datetime) -> None:
    job = make_job("etl", now)
    skipped = [make_occurrence(job, now - n * MINUTE, S.SKIPPED, started_at=None) for n in range(20)]
    queued = [make_occurrence(job, now - n * MINUTE, S.QUEUED) for n in range(32, 29, -1)]
    running = make_occurrence(job, now - 40 * MINUTE, S.RUNNING)
    expected = [running, *queued, *skipped]
    assert newest_occurrences(job) == expected[:MAX_NEWEST]


def test_without_open_occurrences_the_newest_are_shown(now: datetime) -> None:
    job = make_job("etl", now)
    rows = [make_occurrence(job, now - number * MINUTE) for number in range(12)]
    assert newest_occurrences(job) == rows[:MAX_NEWEST]


def test_a_long_queue_is_cut_at_the_next_in_line(now: datetime) -> None:
    job = make_job("etl", now)
    queued = [make_occurrence(job, now - number * MINUTE, S.QUEUED) for number in range(20, 0, -1)]
    assert newest_occurrences(job) == queued[:MAX_NEWEST]
