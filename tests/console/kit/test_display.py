"""Values as the operator reads them: the clock of the job, UTC on hover, spans in common units."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import override_settings

from punctual.console.kit.display import NOTHING, badge, format_age, instant, isolate_rtl, span, zone_of
from punctual.jobs.models import Job

pytestmark = pytest.mark.req("OPS-2")

AT = datetime(2026, 7, 1, 22, 30, tzinfo=UTC)


def test_an_instant_is_shown_on_the_jobs_clock_and_in_utc_on_hover() -> None:
    text = instant(AT, ZoneInfo("Europe/Berlin"))
    assert 'title="2026-07-01 22:30:00 UTC"' in text
    assert ">2026-07-02 00:30:00 Europe/Berlin<" in text


def test_utc_is_not_repeated() -> None:
    assert instant(AT, ZoneInfo("UTC")) == instant(AT)
    assert instant(None) == NOTHING


def test_a_fraction_of_a_second_is_shown_on_hover_only() -> None:
    text = instant(AT + timedelta(milliseconds=250))
    assert 'title="2026-07-01 22:30:00.250 UTC"' in text
    assert ">2026-07-01 22:30:00 UTC<" in text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("etl", "etl"),
        ("夜間バッチ", "夜間バッチ"),
        ("تقرير", "\u2068تقرير\u2069"),
        ("דוח 2", "\u2068דוח 2\u2069"),
    ],
)
def test_only_a_right_to_left_name_is_isolated(name: str, expected: str) -> None:
    assert isolate_rtl(name) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0421, "42 ms"), (2.25, "2.25 s"), (61, "1 min 01 s"), (59.9, "59.9 s"), (7260, "2 h 01 min"),
        (48 * 3600 - 1, "47 h 59 min"), (48 * 3600, "2 d 0 h"), (30 * 86400 + 7200, "30 d 2 h"),
    ],
)  # fmt: skip
def test_a_span_is_shown_in_common_units(seconds: float, expected: str) -> None:
    assert f">{expected}<" in span(timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(-1, "0 s"), (0.3, "0 s"), (2.68, "3 s"), (59.9, "1 min 00 s"), (61, "1 min 01 s")],
)
def test_an_age_has_no_fractions(seconds: float, expected: str) -> None:
    assert format_age(timedelta(seconds=seconds)) == expected


@pytest.mark.parametrize(
    ("schedule", "config", "zone"),
    [
        ("TZ=Asia/Tokyo 0 2 * * *", {"timezone": "Europe/Berlin"}, "Asia/Tokyo"),
        ("0 2 * * *", {"timezone": "Europe/Berlin"}, "Europe/Berlin"),
        ("0 2 * * *", {}, "America/New_York"),
        ("TZ=No/Where 0 2 * * *", {}, None),
        ("TZ=../../etc/passwd 0 2 * * *", {}, None),
    ],
)
@override_settings(PUNCTUAL={"timezone": "America/New_York"})
def test_the_zone_is_the_most_specific_one_named(
    schedule: str, config: dict[str, str], zone: str | None
) -> None:
    found = zone_of(Job(schedule=schedule, config=config))
    assert (found and found.key) == zone


def test_a_badge_escapes_what_it_shows() -> None:
    text = badge("<b>", "good", "check", title='"><script>')
    assert "<b>" not in text
    assert "<script>" not in text
