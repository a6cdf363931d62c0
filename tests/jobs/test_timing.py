"""A job's schedule in words, its next fires, and relative texts made absolute."""

from datetime import UTC, datetime, timedelta

import pytest

import schedules
from jobs.models import Job
from jobs.timing import absolute, doubts, timing


def job(schedule: str, created_at: datetime, **config: object) -> Job:
    return Job(name="etl", schedule=schedule, config=config, created_at=created_at)


def test_words_and_fires_are_those_of_the_job(now: datetime) -> None:
    found = timing(job("0 2 * * *", now, timezone="Asia/Tokyo"), now, 2)
    assert found.words == "at 02:00 every day, Asia/Tokyo time"
    assert [fire.instant.hour for fire in found.fires] == [17, 17]


def test_intervals_count_from_the_creation_of_the_job(now: datetime) -> None:
    created = now - timedelta(minutes=7)
    found = timing(job("@every 10m", created), now, 1)
    assert found.fires[0].instant == now + timedelta(minutes=3)


def test_a_fire_on_the_night_of_a_clock_change_says_so() -> None:
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    night, ordinary = timing(job("TZ=Europe/Berlin 30 2 * * *", before), before, 2).fires
    assert night.note == "the clock has just jumped ahead"
    assert ordinary.note == ""


@pytest.mark.parametrize("spoiled", ["tomorrow", "", "61 * * * *"])
def test_a_schedule_that_says_nothing_is_a_problem_not_an_error(now: datetime, spoiled: str) -> None:
    found = timing(job(spoiled, now), now)
    assert found.problem
    assert (found.words, found.fires) == ("", ())


def test_what_was_probably_not_meant_is_said(now: datetime) -> None:
    assert doubts(job("* * * * * *", now), now)
    assert not doubts(job("0 2 * * *", now), now)


@pytest.mark.req("CHX-16")
@pytest.mark.parametrize("text", ["@once +20m", "TZ=Europe/Berlin @once +20m {jitter:5m}"])
def test_a_relative_once_becomes_the_instant_it_means(now: datetime, text: str) -> None:
    fixed = absolute(text, timezone=None, now=now)
    assert "+20m" not in fixed
    later = schedules.parse(fixed, reference=now + timedelta(days=1))
    assert later.next_after(now) == now + timedelta(minutes=20)


@pytest.mark.req("CHX-16")
@pytest.mark.parametrize(
    "text", ["@once 2027-01-01T00:00:00", "@every 5m", "0 2 * * *", "posix:0 2 * * *", "kron:0 2 * * *"]
)
def test_every_other_text_stays_as_it_was_typed(now: datetime, text: str) -> None:
    assert absolute(text, timezone="Europe/Berlin", now=now) == text
