from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest
from celery import current_app
from django_celery_beat.models import ClockedSchedule, SolarSchedule
from hypothesis import given, settings
from hypothesis import strategies as st

from punctual import schedules
from punctual.beat.periodic_tasks.translation import schedule_of
from punctual.jobs.errors import DefinitionError
from tests.beat.periodic_tasks.factories import cron, every, periodic_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-10")]

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
SOON = NOW + timedelta(days=1)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"crontab": cron(minute="*/5")}, "TZ=UTC */5 * * * *"),
        (
            {"crontab": cron(minute="0", hour="8-18/2", timezone="Europe/Berlin")},
            "TZ=Europe/Berlin 0 8-18/2 * * *",
        ),
        ({"crontab": cron(minute="0, 30", hour="*/1")}, "TZ=UTC 0,30 * * * *"),
        ({"crontab": cron(minute="0", hour="3", day_of_week="mon-fri")}, "TZ=UTC 0 3 * * mon-fri"),
        ({"crontab": cron(minute="0", hour="3", day_of_week="sunday")}, "TZ=UTC 0 3 * * 0"),
        ({"crontab": cron(minute="0", hour="3", day_of_week="sat-mon")}, "TZ=UTC 0 3 * * sat-mon"),
        ({"crontab": cron(minute="0", hour="3", day_of_week="0,6")}, "TZ=UTC 0 3 * * 0,6"),
        ({"crontab": cron(minute="0", hour="3", day_of_week="0-6", day_of_month="1")}, "TZ=UTC 0 3 1 * *"),
        (
            {"crontab": cron(minute="0", day_of_month="*/2", month_of_year="jan,jul")},
            "TZ=UTC 0 * */2 jan,jul *",
        ),
        ({"crontab": cron(minute="0", month_of_year="january")}, "TZ=UTC 0 * * 1 *"),
        ({"interval": every(30, "seconds")}, "@every 30s"),
        ({"interval": every(2, "days")}, "@every 2d"),
        ({"interval": every(5000, "microseconds")}, "@every 5ms"),
        ({"interval": every(1, "hours"), "start_time": NOW}, "@every 1h"),
        ({"interval": every(1, "hours"), "start_time": SOON}, "iso8601:R/2026-01-06T12:00:00Z/PT3600.000S"),
        (
            {"interval": every(1, "hours"), "start_time": SOON, "expires": SOON + timedelta(hours=3)},
            "iso8601:R3/2026-01-06T12:00:00Z/PT3600.000S",
        ),
        (
            {"interval": every(1, "hours"), "start_time": SOON, "one_off": True},
            "iso8601:R1/2026-01-06T12:00:00Z/PT3600.000S",
        ),
        ({"interval": every(1, "hours"), "one_off": True}, "@every 1h {max:1}"),
        ({"clocked": ClockedSchedule(clocked_time=SOON)}, "@once 2026-01-06T12:00:00Z"),
        (
            {"start_time": NOW, "expires": SOON, "one_off": True},
            "TZ=UTC 0 * * * * {from:2026-01-05T12:00:00Z, max:1, until:2026-01-06T11:59:59.999999Z}",
        ),
    ],
)
def test_a_schedule_is_translated_to_chronex_or_iso_8601(columns: dict[str, Any], text: str) -> None:
    assert schedule_of(periodic_task(**columns), NOW) == text
    schedules.parse(text, reference=NOW)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (
            {"crontab": cron(minute="0", day_of_month="1", day_of_week="1")},
            "crontab='0 \\* 1 \\* 1': Celery fires when day of month AND day of week match",
        ),
        ({"crontab": cron(minute="61")}, "crontab='61 .*': Celery cannot read it"),
        ({"crontab": cron(minute="1,,2")}, "crontab='1,,2 .*': Celery cannot read it"),
        ({"crontab": cron(minute="0", day_of_month="31", month_of_year="2")}, "Celery cannot read it"),
        (
            {"interval": every(999, "microseconds")},
            "interval='999 microseconds': expected whole milliseconds",
        ),
        ({"interval": every(0, "seconds")}, "interval='0 seconds': expected whole milliseconds, at least 1"),
        (
            {"clocked": ClockedSchedule(clocked_time=NOW)},
            "clocked='2026-01-05T12:00:00Z': its time has passed",
        ),
        (
            {"solar": SolarSchedule(event="sunset", latitude=1, longitude=2)},
            "solar='Sunset .*solar schedules are not supported",
        ),
        ({"interval": every(1, "days"), "crontab": cron(minute="0")}, "expected exactly one of crontab"),
        ({"crontab": None}, "schedule=\\[\\]: expected exactly one of"),
        ({"expires": NOW}, "expires='2026-01-05T12:00:00Z': it has expired"),
        ({"one_off": True, "total_run_count": 1}, "one_off=True: it has already run"),
        (
            {"interval": every(1, "days"), "start_time": SOON, "expires": SOON},
            "expires='2026-01-06T12:00:00Z': it expires before it starts",
        ),
    ],
)
def test_a_schedule_without_an_exact_translation_is_refused_with_the_reason(
    columns: dict[str, Any], reason: str
) -> None:
    with pytest.raises(DefinitionError, match=reason):
        schedule_of(periodic_task(**columns), NOW)


def test_without_time_zones_in_celery_a_crontab_uses_the_zone_of_the_app(settings: Any) -> None:
    settings.DJANGO_CELERY_BEAT_TZ_AWARE = False
    row = periodic_task(crontab=cron(minute="0", timezone="Asia/Tokyo"))
    assert schedule_of(row, NOW) == f"TZ={current_app.timezone} 0 * * * *"


def numbers(low: int, high: int, *names: str) -> st.SearchStrategy[str]:
    number = st.integers(low, high).map(str) | (st.sampled_from(names) if names else st.nothing())
    pair = st.tuples(number, number).map("-".join)
    part = st.one_of(number, pair, st.tuples(pair | st.just("*"), st.integers(1, 9).map(str)).map("/".join))
    return st.just("*") | st.lists(part, min_size=1, max_size=3).map(",".join)


@given(
    minute=numbers(0, 59),
    hour=numbers(0, 23),
    month=numbers(1, 12, "feb", "November"),
    day=st.tuples(numbers(1, 31), st.just("*")) | st.tuples(st.just("*"), numbers(0, 6, "mon", "Saturday")),
)
@settings(max_examples=300, deadline=None)
def test_a_translated_crontab_fires_when_celery_would(
    minute: str, hour: str, month: str, day: tuple[str, str]
) -> None:
    row = cron(minute=minute, hour=hour, month_of_year=month, day_of_month=day[0], day_of_week=day[1])
    try:
        text = schedule_of(periodic_task(crontab=row), NOW)
    except DefinitionError as error:
        assert "Celery cannot read it" in str(error)  # noqa: PT017 - 30 February and the like
        return
    celery = row.schedule
    fires = list(islice(schedules.parse(text).between(NOW, NOW + timedelta(days=4000)), 50))
    for at in fires:
        assert {at.minute} <= celery.minute
        assert {at.hour} <= celery.hour
        assert {at.day} <= celery.day_of_month
        assert {at.month} <= celery.month_of_year
        assert {at.isoweekday() % 7} <= celery.day_of_week
    first = fires[0]
    assert first == NOW + next_by_celery(celery)


def next_by_celery(celery: Any) -> timedelta:
    """The delay from NOW until Celery would fire."""
    celery.nowfun = lambda: NOW
    delay: timedelta = celery.remaining_estimate(NOW)
    return delay
