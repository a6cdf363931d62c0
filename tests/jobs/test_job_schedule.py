"""The schedule of a job: its instants, its summary, and relative texts made absolute."""

from datetime import UTC, datetime, timedelta

import pytest

from punctual import schedules
from punctual.jobs.job_schedule import (
    make_absolute,
    schedule_of,
    schedule_summary,
    schedule_warnings,
    upcoming,
)
from punctual.jobs.models import Job
from tests.occurrences.factories import a_job

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def job(schedule: str, created_at: datetime, **config: object) -> Job:
    return Job(name="etl", schedule=schedule, config=config, created_at=created_at)


def test_the_summary_describes_the_job_s_own_schedule(now: datetime) -> None:
    summary = schedule_summary(job("0 2 * * *", now, timezone="Asia/Tokyo"), now, 2)
    assert summary.words == "at 02:00 every day, Asia/Tokyo time"
    assert [fire.instant.hour for fire in summary.fires] == [17, 17]


def test_intervals_count_from_the_creation_of_the_job(now: datetime) -> None:
    created = now - timedelta(minutes=7)
    summary = schedule_summary(job("@every 10m", created), now, 1)
    assert summary.fires[0].instant == now + timedelta(minutes=3)


def test_a_fire_at_a_clock_change_has_a_note() -> None:
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    night, ordinary = schedule_summary(job("TZ=Europe/Berlin 30 2 * * *", before), before, 2).fires
    assert night.note == "the clock has just jumped ahead"
    assert ordinary.note == ""


@pytest.mark.parametrize("spoiled", ["tomorrow", "", "61 * * * *"])
def test_an_invalid_schedule_is_a_problem_and_not_an_error(now: datetime, spoiled: str) -> None:
    summary = schedule_summary(job(spoiled, now), now)
    assert summary.problem
    assert (summary.words, summary.fires) == ("", ())


def test_a_probably_unintended_schedule_has_a_warning(now: datetime) -> None:
    assert schedule_warnings(job("* * * * * *", now), now)
    assert not schedule_warnings(job("0 2 * * *", now), now)


@pytest.mark.req("CHX-16")
@pytest.mark.parametrize("text", ["@once +20m", "TZ=Europe/Berlin @once +20m {jitter:5m}"])
def test_a_relative_once_becomes_the_instant_it_means(now: datetime, text: str) -> None:
    fixed = make_absolute(text, timezone=None, now=now)
    assert "+20m" not in fixed
    later = schedules.parse(fixed, reference=now + timedelta(days=1))
    assert later.next_after(now) == now + timedelta(minutes=20)


@pytest.mark.req("CHX-16")
@pytest.mark.parametrize(
    "text", ["@once 2027-01-01T00:00:00", "@every 5m", "0 2 * * *", "posix:0 2 * * *", "kron:0 2 * * *"]
)
def test_every_other_schedule_text_is_unchanged(now: datetime, text: str) -> None:
    assert make_absolute(text, timezone="Europe/Berlin", now=now) == text


def test_intervals_count_from_the_job_s_creation_and_its_zone_applies() -> None:
    every = a_job("every", NOW + timedelta(seconds=7), schedule="@every 1h")
    assert upcoming(every, NOW + timedelta(hours=5), 2) == [
        NOW + timedelta(hours=5, seconds=7),
        NOW + timedelta(hours=6, seconds=7),
    ]
    berlin = a_job("berlin", NOW, schedule="0 9 * * *", config={"timezone": "Europe/Berlin"})
    assert schedule_of(berlin).next_after(NOW) == datetime(2026, 1, 6, 8, tzinfo=UTC)


def test_random_intervals_depend_on_the_name_of_the_job() -> None:
    instants = {name: tuple(upcoming(a_job(name, NOW, schedule="@every 1h-9h"), NOW, 3)) for name in "ab"}
    assert instants["a"] != instants["b"]
    assert instants["a"] == tuple(upcoming(a_job("a", NOW, schedule="@every 1h-9h"), NOW, 3))


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 1), (5, 1)])
def test_a_schedule_that_ends_has_no_further_instants(count: int, expected: int) -> None:
    once = a_job("once", NOW, schedule="@once 2026-02-01T00:00:00Z")
    assert len(upcoming(once, NOW, count)) == expected
