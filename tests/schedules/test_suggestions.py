"""A wrong text is refused with a hint at what its author probably meant."""

from __future__ import annotations

import pytest

from punctual import schedules
from tests.schedules.oracle import utc


def refusal(text: str) -> schedules.ScheduleError:
    with pytest.raises(schedules.ScheduleError) as caught:
        schedules.parse(text, reference=utc(2026, 1, 1))
    return caught.value


@pytest.mark.req("CHX-14")
@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("0 0 * * FRY", "did you mean FRI?"),
        ("0 0 * * Friday", "did you mean FRI?"),
        ("0 0 * JANUARY *", "did you mean JAN?"),
        ("0 0 ? * MON", "write * instead of ?"),
        ("0 0 L,15 * *", "L, W and # cannot be part of a list, a range or a step"),
        ("0 0 1,15W * *", "L, W and # cannot be part of a list, a range or a step"),
        ("0 0 * * MON#1,FRI", "L, W and # cannot be part of a list, a range or a step"),
        ("0 0 15w * *", "did you mean 15W?"),
        ("0 0 * * L", "the last Friday of the month is FRIL or 5L"),
        ("0 0 * * *,5", "* stands alone or has a step, as in */5"),
        ("2027-01-01T09:00:00Z", "for one instant write @once 2027-01-01T09:00:00Z"),
        ("2027-01-01 09:00", "for one instant write @once 2027-01-01T09:00:00"),
        ("2027-01-01", "for one instant write @once 2027-01-01T00:00:00"),
        ("R/2026-01-01T00:00:00Z/P1D", "for a repeating interval write iso8601: before it"),
        ("every 5 minutes", "for an interval write @every 5m"),
        ("90s", "for an interval write @every 90s"),
        ("daily", "did you mean @daily?"),
        ("", "an example is 0 9 * * MON-FRI"),
        ("0 0 12 * * ? 2027", "fields for years do not exist: use {from:…, until:…}"),
        ("@evry 5m", "did you mean @every?"),
        ("@every 5min", "write @every 5m"),
        ("@every 5 minutes", "write @every 5m"),
        ("@every often", "durations are written as 30s, 5m, 1h30m or 1d"),
        ("@once", "an example is @once 2027-01-01T09:00:00"),
        ("@once 2027-01-01 09:00", "write @once 2027-01-01T09:00:00"),
        ("@once +5min", "write 5m"),
        ("0 0 * * * {jiter:5m}", "did you mean jitter?"),
        ("0 0 * * * {jitter:5 minutes}", "write 5m"),
        ("TZ=Berlin 0 0 * * *", "did you mean Europe/Berlin?"),
        ("TZ=Europe/Berln 0 0 * * *", "did you mean Europe/Berlin?"),
        ("posx:0 0 * * *", "did you mean posix?"),
        ("posix:*/5 * * * *", "names, steps, macros and seconds are allowed without the prefix posix:"),
        ("kron:0 0 * * * @wim(after,1h)", "did you mean win?"),
        ("kron:0 0 * * * @tz(Paris)", "did you mean Europe/Paris?"),
        ("kron:0 0 * * * @policy(suspended=true)", "did you mean suspend?"),
        ("kron:0 0 * * * @only(dow=FRY)", "did you mean FRI?"),
        ("kron:0 0 * * * @only(hour=9)", "did you mean hours?"),
    ],
)
def test_an_error_proposes_what_to_write(text: str, hint: str) -> None:
    error = refusal(text)
    (problem,) = getattr(error, "errors", (error,))[:1]
    assert problem.hint == hint
    assert f"({hint})" in str(error)


@pytest.mark.req("CHX-14")
@pytest.mark.parametrize(
    "text",
    [
        "61 * * * *",
        "0 0 * FOO *",
        "0 0 32 * *",
        "0 0 * * MON#9",
        "nothing at all",
        "x",
        "@reboot",
        "@once 2027-13-01T00:00:00Z",
        "0 0 * * ٣",
        "posix:61 * * * *",
        "nope:x",
        "1 2 3 4 5 6 7 8",
    ],
)
def test_an_error_without_a_good_guess_has_no_hint(text: str) -> None:
    error = refusal(text)
    assert all(not problem.hint for problem in getattr(error, "errors", (error,)))
