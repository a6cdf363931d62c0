"""Descriptions, lint findings and explanations of schedules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from punctual import schedules
from punctual.schedules import Start, Trigger, bound, describe, explain, lint
from punctual.schedules.kron import Spread
from punctual.schedules.utc import iterate
from tests.schedules.oracle import utc

START = utc(2026, 3, 28)


@pytest.mark.req("CHX-15")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("* * * * *", "every minute, UTC time"),
        ("*/5 * * * *", "every 5 minutes, UTC time"),
        ("*/7 * * * *", "every 7th minute, UTC time"),
        ("30 * * * *", "at minute 30 of every hour, UTC time"),
        ("15 */2 * * *", "at minute 15 of every 2 hours, UTC time"),
        ("0,30 8-18 * * *", "every 30 minutes of hours 8 to 18, UTC time"),
        ("1,31 8-18 * * *", "at minutes 1 and 31 of hours 8 to 18 every day, UTC time"),
        ("0 9 * * MON-FRI", "at 09:00 on Monday to Friday, UTC time"),
        ("0 9,18 * * SAT,SUN", "at 09:00 and 18:00 on Sunday and Saturday, UTC time"),
        ("30 0 9 * * *", "at 09:00:30 every day, UTC time"),
        ("*/10 * * * * *", "every 10 seconds, UTC time"),
        ("*/10 30 * * * *", "every 10 seconds of minute 30 of every hour, UTC time"),
        ("5 */20 * * * *", "at second 5 of every 20 minutes, UTC time"),
        ("* 9-17 * JAN-MAR *", "every minute of hours 9 to 17 in January to March, UTC time"),
        ("0 0 1,15 * *", "at 00:00 on days 1 and 15 of the month, UTC time"),
        ("0 0 13 * FRI", "at 00:00 on day 13 of the month or Friday, UTC time"),
        ("0 0 L * *", "at 00:00 on the last day of the month, UTC time"),
        ("0 0 L-1 * *", "at 00:00 on 1 day before the last day of the month, UTC time"),
        ("0 0 LW * *", "at 00:00 on the weekday nearest to the last day of the month, UTC time"),
        ("0 0 15W * *", "at 00:00 on the weekday nearest to day 15 of the month, UTC time"),
        ("0 0 * * 5L", "at 00:00 on the last Friday of the month, UTC time"),
        ("0 0 * 2,12 1#2", "at 00:00 on the 2nd Monday of the month in February and December, UTC time"),
        ("0 0 * * 1#3", "at 00:00 on the 3rd Monday of the month, UTC time"),
        ("*/11 * * * *", "every 11th minute, UTC time"),
        ("TZ=Asia/Seoul @daily", "at 00:00 every day, Asia/Seoul time"),
        ("@every 90m", "every 1 hour 30 minutes"),
        ("@every 1s-500000ms", "every 1 second to 8 minutes 20 seconds, drawn anew each time"),
        ("@once 2026-05-01T00:00:00+09:00", "once at 2026-04-30 15:00:00 UTC"),
        (
            "@daily {jitter:30s, stagger:5m, window:1h, from:2026-01-01, until:2026-12-31, max:1}",
            (
                "at 00:00 every day, UTC time; shifted by a fixed part of 5 minutes per trigger; "
                "delayed by up to 30 seconds; skipped when more than 1 hour late; "
                "from 2026-01-01 00:00:00 UTC; until 2026-12-31 23:59:59 UTC; at most 1 start"
            ),
        ),
        ("posix:0 0 * * 1", "at 00:00 on Monday, UTC time"),
        (
            "iso8601:R5/2026-01-31T00:00:00Z/P1Y1M",
            "every 1 year 1 month from 2026-01-31 00:00:00 UTC, 5 times, UTC time",
        ),
        ("iso8601:2026-01-31T00:00:00Z/P2DT1H", "every 2 days 1 hour from 2026-01-31 00:00:00 UTC, UTC time"),
        ("once:2026-01-01T00:00:00Z", "once at 2026-01-01 00:00:00 UTC"),
        ("kron:0 0 * * *", "at 00:00 every day, UTC time"),
        (
            "kron:0 0 * * * @win(after,2h)",
            "at 00:00 every day, UTC time; spread over 2 hours after that time",
        ),
        (
            (
                "kron:0 0 * * * @win(around,1h) @dist(skewLate) @seed(daily) "
                "@only(dow=1) @only(dow=3) @avoid(dom=13)"
            ),
            (
                "at 00:00 every day, UTC time; spread over 1 hour around that time, more likely late, "
                "one draw a day; only at dow=1 or dow=3; never at dom=13"
            ),
        ),
        (
            "kron:0 0 * * * @policy(concurrency=forbid,deadline=1h,suspend=true)",
            (
                "at 00:00 every day, UTC time; skipped while the previous run is active; "
                "skipped when more than 1 hour late; suspended: nothing runs"
            ),
        ),
        (
            "posix:0 0 * * 1 {from:2026-01-01}",
            "at 00:00 on Monday, UTC time; from 2026-01-01 00:00:00 UTC",
        ),
        (
            "delay:5m {until:2026-01-01T00:00:00Z}",
            "5 minutes after the previous run has ended; until 2026-01-01 00:00:00 UTC",
        ),
    ],
)
def test_descriptions(text: str, words: str) -> None:
    assert describe(schedules.parse(text)) == words


@pytest.mark.req("ISO-4")
def test_bounds_are_part_of_the_description() -> None:
    daily = schedules.parse("@daily")
    assert describe(bound(daily)) == "at 00:00 every day, UTC time"
    both = bound(daily, start=utc(2026, 1, 1), end=utc(2026, 2, 1))
    assert describe(both).endswith("; from 2026-01-01 00:00:00 UTC; until 2026-02-01 00:00:00 UTC")


@pytest.mark.req("CHX-14")
@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("0 9 * * *", []),
        ("0 0 30 2 *", ["never_fires"]),
        ("@once 1999-01-01T00:00:00Z", ["never_fires"]),
        ("@once 2030-01-01T00:00:00Z", []),
        ("@daily {from:2026-01-01T00:00:01, until:2026-01-01T00:00:02}", ["never_fires"]),
        ("TZ=Europe/Berlin 30 2 * 3 0L", ["only_in_gap"]),
        ("TZ=Europe/Berlin 30 2 * 3 *", []),
        ("posix:30 2 * * *", []),
        ("kron:30 2 * 3 0L @tz(Europe/Berlin)", ["only_in_gap"]),
        ("* * * * * *", ["too_often"]),
        ("*/10 * * * * *", []),
        ("@every 5s", ["too_often"]),
        ("0 * * * * {window:59m}", ["window_shorter_than_step"]),
        ("0 * * * * {window:60m}", []),
        ("0 * * * * {jitter:60m, stagger:60m}", []),
        ("0 * * * * {jitter:61m, stagger:61m}", ["jitter_beyond_interval", "stagger_beyond_interval"]),
        ("@once 2030-01-01T00:00:00Z {jitter:61m}", []),
        ("iso8601:2026-01-01T00:00:00Z/P1D", []),
    ],
)
def test_lint_findings(text: str, codes: list[str]) -> None:
    result = lint(schedules.parse(text))
    assert [item.code for item in result] == codes
    assert all(item.message for item in result)


@pytest.mark.req("CHX-14")
def test_lint_looks_inside_bounds_and_takes_its_limits_from_the_caller() -> None:
    gap = bound(schedules.parse("TZ=Europe/Berlin 30 2 * 3 0L"), start=utc(2010, 1, 1))
    assert [item.code for item in lint(gap)] == ["only_in_gap"]
    assert lint(schedules.parse("* * * * * *"), max_per_minute=60) == ()
    assert lint(schedules.parse("@once 1999-01-01T00:00:00Z"), reference=utc(1990, 1, 1)) == ()


@pytest.mark.req("CHX-6")
def test_the_explanation_marks_what_daylight_saving_does() -> None:
    spring = explain("TZ=Europe/Berlin 30 2 * * *", after=START, count=3)
    assert [(fire.local, fire.mark) for fire in spring.fires] == [
        ("2026-03-28T02:30:00+01:00", ""),
        ("2026-03-29T03:00:00+02:00", "gap"),
        ("2026-03-30T02:30:00+02:00", ""),
    ]
    autumn = explain("TZ=Europe/Berlin 30 * * * *", after=utc(2026, 10, 25), count=3)
    assert [fire.mark for fire in autumn.fires] == ["first pass", "second pass", ""]
    assert autumn.fires[0].instant == utc(2026, 10, 25, 0, 30)


@pytest.mark.req("CHX-14")
def test_a_valid_explanation_is_complete_and_fits_into_json() -> None:
    result = explain("@every 1h {jitter:40m, tag:a+a}", after=START, count=2, timezone="Asia/Seoul")
    assert result.is_valid
    assert (result.kind, result.timezone, result.canonical) == (
        "chronex",
        "Asia/Seoul",
        "@every 1h {jitter:40m, tag:a+a}",
    )
    assert [item.code for item in result.warnings] == ["W001", "E022"]
    document = json.loads(json.dumps(result.to_dict()))
    assert document["fires"][0] == {
        "instant": "2026-03-28T01:00:00Z",
        "local": "2026-03-28T10:00:00+09:00",
        "mark": "",
        "starts_at": None,
        "refusal": "",
    }
    assert document["legend"] == {}
    assert document["description"] == "every 1 hour; delayed by up to 40 minutes"
    assert document["warnings"][0] == {"code": "W001", "message": "duplicate tag 'a'"}
    assert document["errors"] == []


@pytest.mark.req("CHX-14")
@pytest.mark.parametrize(
    ("text", "code", "field", "position"),
    [
        ("61 * * * *", "E002", "minute", 0),
        ("posix:61 * * * *", "InvalidCronExpressionError", "minute", 6),
        ("nope:x", "UnknownKindError", "kind", 0),
        ("iso8601:x", "Iso8601Error", "interval", 8),
        ("kron:0 0 * * * @x()", "KrontabError", "modifier", 15),
    ],
)
def test_an_invalid_text_is_explained_not_raised(
    text: str, code: str, field: str, position: int | None
) -> None:
    result = explain(text, after=START)
    assert not result.is_valid
    assert result.fires == ()
    document = json.loads(json.dumps(result.to_dict()))
    (error,) = document["errors"]
    assert (error["code"], error["field"], error["position"]) == (code, field, position)
    assert error["message"]


@pytest.mark.req("CHX-14")
@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("0 0 * * FRY", "FRY"),
        ("chronex:0 0 L,15 * *", "L"),
        ("TZ=Mars/Base 0 0 * * *", "Mars"),
        ("@once 2026-13-01T00:00:00Z", "2026-13"),
        ("0 0 * * * {jitter:x}", "x"),
        ("posix:0 0 * */2 *", "*/2"),
        ("posix:0 0 * * 1 {until:soon}", "soon"),
        ("iso8601:R/2026-01-01T00:00:00Z/1M", "1M"),
        ("iso8601:R/today/P1M", "today"),
        ("once:today", "today"),
        ("delay:soon", "soon"),
        ("kron:0 0 * * FRY @win(after,1h)", "FRY"),
        ("kron:0 0 * * * @win(after,soon)", "soon"),
        ("kron:0 0 * * * @tz(Mars/Base)", "Mars"),
        ("kron:0 0 * * * @only(dow=FRY)", "FRY"),
        ("kron:0 0 * * * @policy(suspend=perhaps)", "suspend"),
        ("cron:0 0 * * *", "cron"),
    ],
)
def test_the_position_of_an_error_is_that_of_the_wrong_word_for_every_kind(text: str, wrong: str) -> None:
    error = explain(text, after=START).errors[0]
    assert error.position is not None
    assert text[error.position :].startswith(wrong)


@pytest.mark.req("KRN-10")
def test_a_start_that_every_trigger_has_is_told_and_others_are_left_open() -> None:
    weekdays = explain("kron:0 0 * * * @only(dow=MON-FRI)", after=utc(2026, 1, 1), count=3)
    assert [fire.start.refusal if fire.start else None for fire in weekdays.fires] == [
        "",
        "unschedulable",
        "unschedulable",
    ]
    assert weekdays.to_dict()["fires"][1]["starts_at"] is None  # type: ignore[index]
    assert explain("kron:0 0 * * * @win(after,1h)", after=START).fires[0].start is None
    assert explain("0 0 * * * {stagger:1h}", after=START).fires[0].start is None
    assert explain("0 0 * * *", after=START).fires[0].start == Start(utc(2026, 3, 29))


@pytest.mark.req("CHX-13")
def test_no_more_fires_are_listed_than_max_allows_starts() -> None:
    assert len(explain("@hourly {max:3}", after=START).fires) == 3
    assert len(explain("@hourly {max:3}", after=START, trigger=Trigger(starts_left=1)).fires) == 1
    assert explain("@hourly {max:3}", after=START, trigger=Trigger(starts_left=0)).fires == ()

    def refuse_the_first(_schedule: object, nominal: datetime) -> Start:
        return Start(nominal, "window" if nominal.hour == 1 else "")

    answer = explain("@hourly {max:3}", after=START, trigger=Trigger(starts=refuse_the_first))
    assert [fire.instant.hour for fire in answer.fires] == [1, 2, 3, 4], "a skipped one is no start"


def test_what_the_list_of_fires_cannot_show_is_a_warning() -> None:
    assert [item.code for item in explain("delay:1h", after=START).warnings] == ["estimated"]
    suspended = explain("kron:0 0 * * * @policy(suspend=true) {until:2030-01-01}", after=START)
    assert [item.code for item in suspended.warnings] == ["suspended"]


def test_every_mark_has_its_meaning_in_the_legend() -> None:
    assert explain("TZ=Europe/Berlin 30 2 * * *", after=START, count=3).legend == {
        "gap": "the clock has just jumped ahead"
    }
    autumn = explain("TZ=Europe/Berlin 30 * * * *", after=utc(2026, 10, 25), count=3)
    assert set(autumn.legend) == {"first pass", "second pass"}
    assert autumn.to_dict()["legend"] == autumn.legend


def test_lint_asks_a_rare_schedule_for_a_few_fires_only() -> None:
    asked = []

    class Rare:
        def next_after(self, instant: datetime, /) -> datetime:
            asked.append(instant)
            return instant + timedelta(days=1461)

        def between(self, start: datetime, end: datetime, /) -> Iterator[datetime]:
            return iterate(self.next_after, start, end)

    assert lint(Rare()) == ()
    assert len(asked) < 5


@pytest.mark.req("CHX-14")
def test_every_kind_is_shown_in_its_own_zone() -> None:
    fixed = explain("0 0 * * *", after=START, timezone=timezone(timedelta(hours=2)), count=1)
    assert fixed.fires[0].local == "2026-03-29T00:00:00+02:00"
    for text, zone in (
        ("posix:0 0 * * *", "Asia/Seoul"),
        ("kron:0 0 * * * @tz(Asia/Seoul)", "Asia/Seoul"),
        ("iso8601:2026-01-01T00:00:00+09:00/P1D", "UTC"),
        ("once:2027-01-01T00:00:00Z", "Asia/Seoul"),
    ):
        result = explain(text, after=START, timezone="Asia/Seoul" if zone == "Asia/Seoul" else None, count=1)
        assert len(result.fires) == 1
    assert explain("iso8601:2026-01-01T00:00:00+09:00/P1D", after=START, count=1).timezone == "UTC+09:00"
    assert (
        explain("once:2027-01-01T00:00:00Z", after=START, timezone="Mars/Base").errors[0].field == "timezone"
    )
    assert explain("@daily", after=datetime.max.replace(tzinfo=UTC), count=3).fires == ()
    assert explain("@daily", after=START, count=-1).fires == ()


@pytest.mark.req("KRN-11")
def test_a_spread_without_a_window_changes_nothing() -> None:
    assert Spread().decide("job", START).chosen_time == START
