"""Zones, options, problems and the canonical form of Chronex expressions."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from punctual import schedules
from punctual.schedules import chronex
from punctual.schedules.chronex import ChronexError, Expression, Options
from tests.schedules.oracle import utc

SEOUL = "Asia/Seoul"


def codes(text: str) -> list[str]:
    return [item.code for item in chronex.validate(text).errors]


@pytest.mark.req("CHX-5")
def test_the_prefix_wins_over_the_callers_zone_and_utc_is_the_default() -> None:
    start = utc(2026, 1, 1)
    assert chronex.parse("TZ=Asia/Seoul 0 9 * * *", timezone="Europe/Berlin").next_after(start) == utc(
        2026, 1, 2
    )
    assert chronex.parse("0 9 * * *", timezone="Europe/Berlin").next_after(start) == utc(2026, 1, 1, 8)
    assert chronex.parse("0 9 * * *", timezone=ZoneInfo("Europe/Berlin")).timezone == "Europe/Berlin"
    assert chronex.parse("0 9 * * *").next_after(start) == utc(2026, 1, 1, 9)
    assert chronex.parse("0 9 * * *").timezone == "UTC"
    east = timezone(timedelta(hours=5, minutes=30))
    assert chronex.parse("0 9 * * *", timezone=east).next_after(start) == utc(2026, 1, 1, 3, 30)
    assert chronex.parse("TZ=Asia/Seoul 0 9 * * *").declared_timezone == SEOUL
    assert chronex.parse("0 9 * * *", timezone=SEOUL).declared_timezone is None


@pytest.mark.req("CHX-5")
def test_bounds_are_inclusive_and_dates_are_local() -> None:
    expression = chronex.parse("TZ=Asia/Seoul 0 */12 * * * {from:2026-01-02, until:2026-01-03}")
    assert expression.options.from_ == utc(2026, 1, 1, 15)
    assert expression.options.until == datetime(2026, 1, 3, 14, 59, 59, 999_000, UTC)
    expected = [utc(2026, 1, 1, 15), utc(2026, 1, 2, 3), utc(2026, 1, 2, 15), utc(2026, 1, 3, 3)]
    assert list(expression.between(utc(2025, 1, 1), utc(2027, 1, 1))) == expected
    assert expression.next_after(utc(2020, 1, 1)) == expected[0]
    assert expression.next_after(expected[0]) == expected[1]
    assert expression.next_after(expected[-1]) is None


@pytest.mark.req("CHX-5")
def test_bounds_with_a_time_use_their_offset_or_the_zone() -> None:
    text = "0 0 * * * {from:2026-01-02T00:00:00Z, until:2026-01-04T00:00:00+00:00}"
    instants = list(chronex.parse(text).between(utc(2025, 1, 1), utc(2027, 1, 1)))
    assert instants == [utc(2026, 1, 2), utc(2026, 1, 3), utc(2026, 1, 4)]
    local = chronex.parse("@hourly {from:2026-01-02T00:00:00}", timezone="America/New_York")
    assert local.options.from_ == utc(2026, 1, 2, 5)
    only_end = chronex.parse("@hourly {until:2026-01-02T00:00:00}", timezone="America/New_York")
    assert only_end.next_after(utc(2026, 1, 2, 4)) == utc(2026, 1, 2, 5)
    assert only_end.next_after(utc(2026, 1, 2, 5)) is None
    assert list(only_end.between(utc(2026, 1, 2, 4), utc(2026, 1, 3))) == [utc(2026, 1, 2, 5)]


@pytest.mark.req("CHX-5")
def test_a_date_ends_with_its_last_showing_where_midnight_is_repeated() -> None:
    # Havana falls back at 01:00, so 00:00 to 01:00 is shown twice.
    expression = chronex.parse("TZ=America/Havana */30 * * * * {until:2026-10-31}")
    assert expression.options.until == datetime(2026, 11, 1, 3, 59, 59, 999_000, UTC)
    skipped = chronex.parse("TZ=Pacific/Apia @hourly {until:2011-12-30}")  # a day that was left out
    assert skipped.options.until == utc(2011, 12, 30, 10)
    repeated = chronex.parse("TZ=America/Sao_Paulo @hourly {until:2018-02-17}")  # 24:00 became 23:00
    assert repeated.options.until == datetime(2018, 2, 18, 2, 59, 59, 999_000, UTC)


@pytest.mark.req("CHX-14")
@pytest.mark.parametrize(
    ("text", "code", "field", "message", "value", "position"),
    [
        ("60 * * * * *", "E001", "second", "second: value 60 out of range [0, 59]", "60", 0),
        ("61 * * * *", "E002", "minute", "minute: value 61 out of range [0, 59]", "61", 0),
        ("0 25 * * *", "E003", "hour", "hour: value 25 out of range [0, 23]", "25", 2),
        ("0 1,2,24 * * *", "E003", "hour", "hour: value 24 out of range [0, 23]", "24", 6),
        ("0 1-30 * * *", "E003", "hour", "hour: value 30 out of range [0, 23]", "30", 4),
        ("0 -5 * * *", "E003", "hour", "hour: value -5 out of range [0, 23]", "-5", 2),
        ("0 0 32 * *", "E004", "dayOfMonth", "dayOfMonth: value 32 out of range [1, 31]", "32", 4),
        ("0 0 0W * *", "E004", "dayOfMonth", "dayOfMonth: value 0W out of range [1, 31]", "0W", 4),
        ("0 0 L-0 * *", "E004", "dayOfMonth", "dayOfMonth: value L-0 out of range [1, 31]", "L-0", 4),
        ("0 0 1,15W * *", "E004", "dayOfMonth", "dayOfMonth: value 15W out of range [1, 31]", "15W", 6),
        ("0 0 * 13 *", "E005", "month", "month: value 13 out of range [1, 12]", "13", 6),
        ("0 0 * FOO *", "E005", "month", "month: value FOO out of range [1, 12]", "FOO", 6),
        ("0 0 * * 8", "E006", "dayOfWeek", "dayOfWeek: value 8 out of range [0, 7]", "8", 8),
        ("0 0 * * MON#9", "E006", "dayOfWeek", "dayOfWeek: value MON#9 out of range [0, 7]", "MON#9", 8),
        ("*/0 * * * *", "E007", "minute", "minute: step must be positive, got 0", "0", 2),
        ("0 */x * * *", "E007", "hour", "hour: step must be positive, got x", "x", 4),
        ("0 */-2 * * *", "E007", "hour", "hour: step must be positive, got -2", "-2", 4),
        ("* * * *", "E010", "expression", "expected 5 or 6 fields, got 4", "* * * *", 0),
        ("", "E010", "expression", "expected 5 or 6 fields, got 0", "", 0),
        ("@fortnightly", "E010", "expression", "unknown alias '@fortnightly'", "@fortnightly", 0),
        ("@daily x", "E010", "expression", "unexpected text 'x'", "x", 7),
        ("TZ=Mars/Base @daily", "E011", "timezone", "timezone: unknown timezone 'Mars/Base'", "Mars/Base", 3),
        ("@once tomorrow", "E012", "once", "once: invalid datetime format 'tomorrow'", "tomorrow", 6),
        ("@every 0s", "E013", "every", "every: duration must be positive", "0s", 7),
        ("@every soon", "E013", "every", "every: duration must be positive", "soon", 7),
        ("@every 2h-1h", "E014", "every", "every: min duration must be less than max", "2h-1h", 7),
        ("@daily {x:1}", "E015", "options", "options: unknown option 'x'", "x", 8),
        (
            "@daily {jitter:x}",
            "E016",
            "options.jitter",
            "options.jitter: expected duration, got 'x'",
            "x",
            15,
        ),
        (
            "@daily {from:x}",
            "E016",
            "options.from",
            "options.from: expected date/datetime, got 'x'",
            "x",
            13,
        ),
        ("@daily {max:x}", "E016", "options.max", "options.max: expected integer, got 'x'", "x", 12),
        ("@daily {tag:1}", "E016", "options.tag", "options.tag: expected string, got '1'", "1", 12),
        ("@once +0s", "E017", "once", "once: relative duration must be positive", "+0s", 6),
        (
            "@daily {from:2026-01-02, until:2026-01-01}",
            "E020",
            "options",
            "options: 'from' must be before 'until'",
            "2026-01-02",
            13,
        ),
        ("@daily {max:0}", "E021", "options.max", "options.max: must be positive, got 0", "0", 12),
        ("@daily {max: -3}", "E021", "options.max", "options.max: must be positive, got -3", "-3", 13),
        ("@daily {window:0s}", "E023", "options.window", "options.window: must be positive", "0s", 15),
        ("@daily {stagger:0s}", "E024", "options.stagger", "options.stagger: must be positive", "0s", 16),
    ],
)
def test_every_rule_names_code_field_message_value_and_position(
    text: str, code: str, field: str, message: str, value: str, position: int
) -> None:
    result = chronex.validate(text)
    assert not result.is_valid
    (item,) = result.errors
    assert (item.code, item.field, item.message, item.value, item.position) == (
        code,
        field,
        message,
        value,
        position,
    )
    with pytest.raises(ChronexError) as caught:
        chronex.parse(text, reference=utc(2026, 1, 1))
    assert caught.value.errors == result.errors
    assert (caught.value.code, caught.value.field, caught.value.position) == (code, field, position)
    assert message in str(caught.value)


@pytest.mark.req("CHX-14")
def test_from_must_be_strictly_before_until() -> None:
    same = "@daily {from:2026-01-01T00:00:00, until:2026-01-01T00:00:00}"
    assert codes(same) == ["E020"]
    assert codes("@daily {from:2026-01-01, until:2026-01-01}") == []  # a whole day
    # Whether one is before the other can depend on the zone of the one without an offset.
    mixed = "@daily {from:2026-01-01T00:00:00, until:2026-01-01T01:00:00Z}"
    assert codes(mixed) == []
    with pytest.raises(ChronexError) as caught:
        chronex.parse(mixed, timezone="America/New_York")
    assert caught.value.code == "E020"


@pytest.mark.req("CHX-14")
def test_all_errors_are_collected_from_left_to_right() -> None:
    text = "TZ=No/Where 61 */0 32,33 13 8 {jitter:x, nope:1, max:0}"
    expected = ["E011", "E002", "E007", "E004", "E004", "E005", "E006", "E016", "E015", "E021"]
    assert codes(text) == expected
    positions = [item.position for item in chronex.validate(text).errors]
    assert positions == sorted(positions, key=lambda at: at or 0)
    assert codes("*/x/y 25/0 * * *") == ["E007", "E003", "E007"]


@pytest.mark.req("CHX-14")
@pytest.mark.parametrize(
    "text",
    [
        "* * * * * {",
        "* * * * * }",
        "* * * * * }{",
        "* * * * * {}",
        "* * * * * { }",
        "* * * * *{max:1}",
        "* * * * * {max:1} x",
        "* * * * * {max:1} {max:2}",
        "* * * * * {{max:1}}",
        "* * * * * {max:1, max:2}",
        "{max:1}",
        "* * * * * * *",
        "TZ=UTC",
        "@every 1h 30m",
        "@once 2026-01-01T00:00:00Z later",
        "@",
        "* * * * * " + "#" * 5000,
    ],
)
def test_a_broken_structure_is_e010(text: str) -> None:
    assert "E010" in codes(text)


@pytest.mark.req("CHX-14")
@pytest.mark.parametrize(
    "text", ["*,5 * * * *", "1,, * * * *", ", * * * *", "1- * * * *", "1--2 * * * *", "- * * * *"]
)
def test_half_an_element_is_refused(text: str) -> None:
    assert set(codes(text)) == {"E002"}


@pytest.mark.req("CHX-14")
@pytest.mark.parametrize(
    "text", ["٣ * * * *", "１ * * * *", "* * * * ²", "@every ٣m", "*/٣ * * * *", "0 0 * * mｏn", "0 0 ³W * *"]
)
def test_digits_of_other_scripts_are_errors(text: str) -> None:
    assert codes(text)


@pytest.mark.req("CHX-14")
@pytest.mark.parametrize(
    "name",
    [
        "Asia",
        "zone.tab",
        "../x",
        "/etc/passwd",
        "posixrules",
        "localtime",
        "right/UTC",
        "posix/UTC",
        "tzdata.zi",
        "leapseconds",
        "Europe/",
        "Europe//Berlin",
        "",
        "Europe/Berlin\x00",
        "x" * 5000,
        "a/b/c/d/e",
        "utc+",
        ".",
    ],
)
def test_files_directories_and_paths_are_not_zones(name: str) -> None:
    assert {"E011", "E010"} & set(codes(f"TZ={name} @daily"))
    with pytest.raises(ChronexError) as caught:
        chronex.parse("@daily", timezone=name or "?")
    assert caught.value.errors[0].code == "E011"


@pytest.mark.req("CHX-14")
def test_warnings_do_not_invalidate_and_need_strictly_more() -> None:
    assert [item.code for item in chronex.validate("@every 1h {jitter:31m, stagger:61m}").warnings] == [
        "E022",
        "E025",
    ]
    assert chronex.validate("@every 1h {jitter:30m, stagger:60m}").warnings == ()
    assert chronex.validate("@every 1h-2h {jitter:31m}").warnings[0].message == (
        "options.jitter: 31m exceeds 50% of schedule interval"
    )
    assert chronex.validate("@every 1h {stagger:90m}").warnings[0].message == (
        "options.stagger: 1h30m exceeds schedule interval"
    )
    duplicate = chronex.validate("@daily {tag:foo+bar+foo}")
    assert duplicate.is_valid
    (item,) = duplicate.warnings
    assert (item.code, item.message, item.position) == ("W001", "duplicate tag 'foo'", 20)
    assert chronex.validate("@hourly {jitter:2h}").warnings == ()


@pytest.mark.req("CHX-14")
@pytest.mark.parametrize("value", [None, 5, b"* * * * *", ["*"], {}])
def test_what_is_not_text_is_an_error_like_any_other(value: object) -> None:
    with pytest.raises(ChronexError) as caught:
        chronex.parse(value)  # type: ignore[arg-type]  # the point of the test
    assert caught.value.errors[0].code == "E010"
    assert not chronex.validate(value).is_valid  # type: ignore[arg-type]
    with pytest.raises(ChronexError):
        schedules.parse(value)  # type: ignore[arg-type]


@pytest.mark.req("CHX-14")
def test_a_relative_once_is_valid_text_but_needs_a_reference_to_be_parsed() -> None:
    assert chronex.validate("@once +20m").is_valid
    with pytest.raises(ChronexError) as caught:
        chronex.parse("@once +20m")
    assert caught.value.errors[0].code == "E017"


@pytest.mark.req("CHX-14")
def test_errors_survive_pickling() -> None:
    with pytest.raises(ChronexError) as caught:
        chronex.parse("61 * * * * {tag:a+a}")
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 -- our own bytes
    assert again.errors == caught.value.errors
    assert str(again) == str(caught.value)


@pytest.mark.req("CHX-15")
@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  */05   09 * JAN-mar MON-FRI ", "*/5 9 * 1-3 1-5"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * 0-7", "0 0 * * 0-6"),
        ("0 0 * * 5-7", "0 0 * * 5-0"),
        ("0 0 * * SUNL", "0 0 * * 0L"),
        ("0 0 * * 7#1", "0 0 * * 0#1"),
        ("0 0 015W * *", "0 0 15W * *"),
        ("0 0 LW * *", "0 0 LW * *"),
        ("0 0 L-03 * *", "0 0 L-3 * *"),
        ("@every 90m", "@every 1h30m"),
        ("@every 3600s-7200000ms", "@every 1h-2h"),
        ("@every 1d1h1m1s1ms", "@every 1d1h1m1s1ms"),
        (
            "@weekly {  window:90s ,tag:b+a,max:007,jitter:0s}",
            "0 0 * * 0 {jitter:0s, max:7, tag:b+a, window:1m30s}",
        ),
        ("@once 2026-01-01T00:00:00.5Z", "@once 2026-01-01T00:00:00Z"),
        ("@once 2026-01-01T00:00:00+09:00", "@once 2026-01-01T00:00:00+09:00"),
        ("@once 2026-01-01T00:00:00-03:30", "@once 2026-01-01T00:00:00-03:30"),
        ("TZ=Asia/Seoul  @once 2026-01-01T00:00:00", "TZ=Asia/Seoul @once 2026-01-01T00:00:00+09:00"),
        (
            "@daily {until:2026-01-01T10:00:00,from:2025-01-01}",
            "0 0 * * * {from:2025-01-01, until:2026-01-01T10:00:00}",
        ),
        ("@daily {until:2026-01-01T10:00:00+00:00}", "0 0 * * * {until:2026-01-01T10:00:00Z}"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    expression = chronex.parse(text)
    assert expression.canonical == str(expression) == canonical
    assert expression.text == text
    assert chronex.parse(canonical).canonical == canonical


@pytest.mark.req("CHX-15")
def test_equality_is_canonical_equality() -> None:
    weekly = chronex.parse("0 0 * * 0")
    assert weekly == chronex.parse("@weekly") == chronex.parse("0 0 * * 7")
    assert hash(weekly) == hash(chronex.parse("@weekly"))
    assert weekly != chronex.parse("TZ=UTC 0 0 * * 0")
    assert weekly != "0 0 * * 0"
    assert repr(weekly) == "<Expression '0 0 * * 0'>"


@pytest.mark.req("CHX-15")
def test_expressions_are_immutable_values() -> None:
    expression = chronex.parse("@daily {tag:a+b}")
    assert expression.tags == ("a", "b")
    assert expression.kind == "cron"
    assert expression.once_at is None
    assert chronex.parse("@daily").options == Options()
    with pytest.raises(AttributeError):
        expression.text = "x"  # type: ignore[misc]  # the point of the test
    assert chronex.parse("@daily {tag:a+b}") is expression
    shared = chronex.parse("0 9 * * *", reference=utc(2026, 1, 1), trigger_id="a")
    assert chronex.parse("0 9 * * *", reference=utc(2026, 1, 2), trigger_id="b") is shared


@pytest.mark.req("CHX-5")
def test_a_naive_instant_is_refused_by_name() -> None:
    expression = chronex.parse("@daily")
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 -- the point of the test
    for call in (lambda: expression.next_after(naive), lambda: chronex.parse("@every 1h", reference=naive)):
        with pytest.raises(schedules.NaiveInstantError) as caught:
            call()
        assert caught.value.value == "2026-01-01T00:00:00"


@pytest.mark.req("CHX-1")
def test_the_base_class_cannot_be_instantiated() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Expression("", "", None, chronex.parse("@daily").zone, Options(), "")  # type: ignore[abstract]
