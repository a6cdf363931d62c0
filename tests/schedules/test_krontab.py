"""Krontab entries: parse and format cron, zone, spread and policy."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual import schedules
from punctual.schedules import krontab
from punctual.schedules.errors import ChronexError, KrontabError, ScheduleError, UnknownZoneError
from punctual.schedules.kron import Constraints, Distribution, Spread
from punctual.schedules.kron.modifiers import Policy, format_spread
from tests.schedules.oracle import utc
from tests.schedules.strategies import prop

FULL = (
    "@tz(Europe/Paris)",
    "@win(around,90m)",
    "@dist(skewLate,shape=2.5)",
    "@seed(daily,salt=msgs)",
    "@policy(concurrency=allow,deadline=10m,suspend=true)",
    "@only(dow=MON-FRI;hours=8-18)",
    "@avoid(date=2026-12-25)",
)


@pytest.mark.req("KRN-10")
def test_every_part_is_parsed() -> None:
    entry = krontab.parse("0 10 * * * " + " ".join(FULL))
    assert entry.cron.canonical == "0 10 * * *"
    assert entry.timezone == "Europe/Paris"
    assert entry.spread == Spread(
        "around",
        timedelta(minutes=90),
        Distribution("skewLate", {"shape": "2.5"}),
        "daily",
        "msgs",
        Constraints(("dow=MON-FRI;hours=8-18",), ("date=2026-12-25",)),
    )
    assert entry.policy == Policy("allow", timedelta(minutes=10), suspend=True)
    nominal = entry.next_after(utc(2026, 3, 1, 12))
    assert nominal == utc(2026, 3, 2, 9)
    assert list(entry.between(utc(2026, 3, 1, 12), utc(2026, 3, 2, 12))) == [nominal]
    chosen = entry.decide("msgs", nominal).chosen_time
    assert chosen is not None
    assert abs(chosen - nominal) <= timedelta(minutes=45)


@pytest.mark.req("KRN-10")
def test_the_order_of_modifiers_does_not_matter() -> None:
    entries = {
        str(krontab.parse("0 10 * * * " + " ".join(order))) for order in itertools.permutations(FULL[:5])
    }
    assert len(entries) == 1


@pytest.mark.req("KRN-10")
def test_defaults() -> None:
    entry = krontab.parse("*/5 * * * *")
    assert entry.spread == Spread()
    assert entry.policy == Policy("forbid", timedelta(), suspend=False)
    assert entry.timezone == "UTC"
    assert str(entry) == "kron:*/5 * * * *"
    assert krontab.parse("@hourly").cron.canonical == "0 * * * *"
    assert krontab.parse("0 0 * * *", timezone="Asia/Seoul").timezone == "Asia/Seoul"
    assert krontab.parse("0 0 * * * @tz(UTC)", timezone="Asia/Seoul").timezone == "UTC"


@pytest.mark.req("KRN-10")
@prop
@given(
    st.tuples(
        st.sampled_from(["", "@tz(Asia/Seoul)"]),
        st.sampled_from(["", "@win(after,3h)", "@win(around,1h1m1s)", "@win(around,0s)"]),
        st.sampled_from(["", "@dist(uniform)", "@dist(skewEarly)", "@dist(skewLate,shape=3)"]),
        st.sampled_from(["stable", "daily", "weekly"]),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
        st.sampled_from(["", "@only(hours=1) @only(dow=MON)", "@avoid(between=01:00-02:00)"]),
        st.sampled_from(
            ["", "@policy(suspend=true)", "@policy(deadline=5m)", "@policy(concurrency=replace)"]
        ),
    )
)
def test_entries_round_trip(parts: tuple[str, ...]) -> None:
    *modifiers, salt, constraints, policy = parts
    strategy = modifiers.pop()
    escaped = salt.replace("\\", "\\\\").replace('"', '\\"')
    text = " ".join(["0 0 * * *", *modifiers, f'@seed({strategy},salt="{escaped}")', constraints, policy])
    entry = krontab.parse(text)
    assert entry.spread.salt == salt
    assert str(entry).startswith("kron:")
    assert krontab.parse(str(entry)) == entry
    assert schedules.parse(str(entry)) == entry
    assert str(schedules.parse(str(entry))) == str(entry)


@pytest.mark.req("KRN-10")
@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("0 0 * * * @win(after)", "win"),
        ("0 0 * * * @win(after,x)", "win"),
        ("0 0 * * * @win(during,1h)", "window_mode"),
        ("0 0 * * * @win()", "win"),
        ("0 0 * * * @dist(normal)", "distribution"),
        ("0 0 * * * @dist(skewLate,shape)", "dist"),
        ("0 0 * * * @dist(skewLate,shape=1,shape=2)", "dist"),
        ("0 0 * * * @dist(skewLate,shape=x)", "distribution.shape"),
        ("0 0 * * * @seed(hourly)", "seed_strategy"),
        ("0 0 * * * @seed(daily,pepper=x)", "seed"),
        ("0 0 * * * @policy(concurrency=maybe)", "policy"),
        ("0 0 * * * @policy(deadline=soon)", "policy"),
        ("0 0 * * * @policy(suspend=yes)", "policy"),
        ("0 0 * * * @policy(color=red)", "policy"),
        ("0 0 * * * @only(hours=25)", "hours"),
        ("0 0 * * * @win(after,1h) @win(after,2h)", "win"),
        ("0 0 * * * @nope(1)", "modifier"),
        ("0 0 * * * @win(after,1h", "modifier"),
        ("0 0 * * * @win(after,1h)x", "modifier"),
        ("0 0 * * * @win(after,1h) x", "modifier"),
        ('0 0 * * * @seed(daily,salt="x)', "modifier"),
        ("TZ=UTC 0 0 * * *", "cron"),
        ("0 0 * * * {max:1}", "cron"),
        ("@every 5m @win(after,1h)", "cron"),
        ("* " * 3000, "krontab"),
    ],
)
def test_bad_entries_name_the_modifier(text: str, field: str) -> None:
    with pytest.raises(KrontabError) as caught:
        krontab.parse(text)
    assert caught.value.field == field


@pytest.mark.req("KRN-10")
def test_a_bad_cron_or_zone_keeps_its_own_error() -> None:
    with pytest.raises(ChronexError) as caught:
        krontab.parse("0 25 * * * @win(after,1h)")
    assert caught.value.position == 2
    with pytest.raises(UnknownZoneError):
        krontab.parse("0 0 * * * @tz(Mars/Base)")
    with pytest.raises(ScheduleError):
        schedules.parse("kron:")


@pytest.mark.req("KRN-11")
def test_a_spread_setting_uses_the_same_modifiers() -> None:
    spread = krontab.parse_spread("@win(after,1h) @dist(skewEarly) @avoid(hours=3)")
    assert spread.window_duration == timedelta(hours=1)
    assert " ".join(format_spread(spread)) == "@win(after,1h) @dist(skewEarly) @avoid(hours=3)"
    assert krontab.parse_spread("") == Spread()
    for text, field in (
        ("@tz(UTC)", "tz"),
        ("@policy(suspend=true)", "policy"),
        ("1h", "modifier"),
        (" " * 5000, "spread"),
    ):
        with pytest.raises(KrontabError) as caught:
            krontab.parse_spread(text)
        assert caught.value.field == field
