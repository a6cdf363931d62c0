"""Deterministic decisions: golden values, the formulas behind them, and the contract's errors."""

from __future__ import annotations

import ast
import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual import schedules
from punctual.schedules.errors import DecisionError
from punctual.schedules.kron import (
    MAX_ATTEMPTS,
    VERSION,
    Constraints,
    DecisionRequest,
    DecisionResult,
    Distribution,
    Spread,
    decide,
)
from punctual.schedules.kron.generator import SplitMix64, draw_below
from tests.schedules.oracle import utc
from tests.schedules.strategies import ZONES, instants, prop

NOMINAL = utc(2026, 3, 1)
REQUEST = DecisionRequest("job", NOMINAL, window_duration=timedelta(hours=3))


@st.composite
def requests(draw: st.DrawFn) -> DecisionRequest:
    name = draw(st.sampled_from(["uniform", "skewEarly", "skewLate"]))
    shape = {"shape": draw(st.sampled_from(["0.5", "1", "2.5", "40"]))} if name != "uniform" else {}
    return DecisionRequest(
        draw(st.text(min_size=1, max_size=20)),
        draw(instants(1970, 2100)),
        draw(st.sampled_from(ZONES)),
        draw(st.sampled_from(["after", "around"])),
        timedelta(microseconds=draw(st.integers(0, 10**13))),
        Distribution(name, shape),
        draw(st.sampled_from(["stable", "daily", "weekly"])),
        draw(st.text(max_size=10)),
    )


def kind_of(**changes: object) -> str:
    with pytest.raises(DecisionError) as caught:
        decide(replace(REQUEST, **changes))  # type: ignore[arg-type]  # wrong on purpose
    assert str(caught.value)
    return caught.value.kind


@pytest.mark.req("KRN-1")
@prop
@given(requests())
def test_equal_requests_give_equal_results_inside_the_window(request: DecisionRequest) -> None:
    first, second = decide(request), decide(pickle.loads(pickle.dumps(request)))  # noqa: S301 -- our own
    assert first == second
    assert first.chosen_time is not None
    assert first.window_start <= first.chosen_time <= first.window_end
    assert first.chosen_time.microsecond == 0
    assert first.window_start <= request.nominal_time <= first.window_end + timedelta(seconds=1)
    assert first.distribution == request.distribution
    assert first.constraint_meta.attempts == (first.window_start != first.window_end)


@pytest.mark.req("KRN-1")
def test_the_package_reads_no_clock_no_file_no_environment() -> None:
    calls, modules = {"now", "today", "utcnow", "open"}, {"time", "os", "random", "secrets", "socket", "sys"}
    for path in sorted(Path(schedules.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            assert getattr(called, "attr", getattr(called, "id", "")) not in calls, path.name
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert not modules & {name.partition(".")[0] for name in imported}, path.name


@pytest.mark.req("KRN-1")
def test_requests_and_results_are_frozen_and_versioned() -> None:
    with pytest.raises(AttributeError):
        REQUEST.salt = "x"  # type: ignore[misc]  # the point of the test
    with pytest.raises(TypeError):
        Distribution("skewLate", {"shape": "2"}).params["shape"] = "3"  # type: ignore[index]
    assert VERSION == "1.0.0"
    assert hash(Distribution("skewLate", {"shape": "2"})) == hash(Distribution("skewLate", {"shape": "2"}))


@pytest.mark.req("KRN-2")
@pytest.mark.parametrize(
    ("strategy", "zone", "nominal", "key"),
    [
        ("stable", "Asia/Seoul", utc(2026, 3, 1, 20, 30), "2026-03-01T20:30:00Z"),
        ("daily", "Asia/Seoul", utc(2026, 3, 1, 20, 30), "2026-03-02"),
        ("daily", "UTC", utc(2026, 3, 1, 20, 30), "2026-03-01"),
        ("weekly", "UTC", utc(2026, 2, 28), "2026-W09"),
        ("weekly", "Asia/Seoul", utc(2026, 3, 1, 20), "2026-W10"),
        ("weekly", "UTC", utc(2027, 1, 1), "2026-W53"),
    ],
)
def test_the_seed_is_sha256_of_identity_key_and_salt(
    strategy: str, zone: str, nominal: datetime, key: str
) -> None:
    result = decide(DecisionRequest("id", nominal, zone, seed_strategy=strategy, salt="s"))
    assert result.seed_hash == sha256(f"id\n{key}\ns".encode()).hexdigest()


@pytest.mark.req("KRN-2")
def test_the_period_id_is_utc_with_whole_seconds() -> None:
    local = datetime.fromisoformat("2026-03-01T02:00:00.250+02:00")
    assert decide(replace(REQUEST, nominal_time=local)).period_id == "2026-03-01T00:00:00Z"
    assert decide(replace(REQUEST, nominal_time=local)).nominal_time == utc(2026, 3, 1) + timedelta(
        milliseconds=250
    )


@pytest.mark.req("KRN-3")
def test_splitmix64_gives_the_published_sequence() -> None:
    generator = SplitMix64((1234567).to_bytes(8, "big") + b"ignored")
    drawn = [generator.next_int() for _ in range(5)]
    assert drawn == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert SplitMix64((1234567).to_bytes(8, "big")).next_unit() == (drawn[0] >> 11) / 2**53


@pytest.mark.req("KRN-3")
def test_one_draw_per_attempt_up_to_the_maximum() -> None:
    impossible = Constraints.parse(only=("date=1999-01-01",))
    result = decide(replace(REQUEST, constraints=impossible))
    assert result.constraint_meta.attempts == MAX_ATTEMPTS == 64
    some = Constraints.parse(only=("hours=2",))
    result = decide(replace(REQUEST, constraints=some))
    digest = sha256(b"job\n2026-03-01T00:00:00Z\n").digest()
    generator = SplitMix64(digest)
    offsets = [int(generator.next_unit() * 10801) for _ in range(64)]
    wanted = next(index for index, offset in enumerate(offsets) if 7200 <= offset < 10800)
    assert result.constraint_meta.attempts == wanted + 1
    assert result.chosen_time == NOMINAL + timedelta(seconds=offsets[wanted])


@pytest.mark.req("KRN-4")
@pytest.mark.parametrize(
    ("distribution", "transform"),
    [
        (Distribution("uniform"), lambda u: u),
        (Distribution("skewEarly"), lambda u: u**2),
        (Distribution("skewEarly", {"shape": "3"}), lambda u: u**3),
        (Distribution("skewLate"), lambda u: 1 - (1 - u) ** 2),
        (Distribution("skewLate", {"shape": "2.5"}), lambda u: 1 - (1 - u) ** 2.5),
    ],
)
def test_distributions_transform_the_uniform_number(distribution: Distribution, transform: object) -> None:
    digest = sha256(b"job\n2026-03-01T00:00:00Z\n").digest()
    unit = SplitMix64(digest).next_unit()
    seconds = min(int(transform(unit) * 10801), 10800)  # type: ignore[operator]
    assert decide(replace(REQUEST, distribution=distribution)).chosen_time == NOMINAL + timedelta(
        seconds=seconds
    )


@pytest.mark.req("KRN-4")
@pytest.mark.parametrize(
    "distribution",
    [
        Distribution("normal"),
        Distribution("Uniform"),
        Distribution(""),
        Distribution("uniform", {"shape": "2"}),
        Distribution("skewLate", {"sigma": "2"}),
        Distribution("skewLate", {"shape": "0"}),
        Distribution("skewLate", {"shape": "-1"}),
        Distribution("skewLate", {"shape": "nan"}),
        Distribution("skewLate", {"shape": "inf"}),
        Distribution("skewLate", {"shape": "٣"}),
        Distribution("skewLate", {"shape": "1e9"}),
        Distribution("skewLate", {"shape": ""}),
    ],
)
def test_other_names_and_parameters_are_errors(distribution: Distribution) -> None:
    assert kind_of(distribution=distribution) == "invalid_distribution"


@pytest.mark.req("KRN-5")
def test_windows_are_computed_in_nanoseconds_and_cut_to_seconds() -> None:
    after = decide(
        replace(
            REQUEST,
            nominal_time=NOMINAL + timedelta(milliseconds=900),
            window_duration=timedelta(seconds=10, milliseconds=200),
        )
    )
    assert (after.window_start, after.window_end) == (NOMINAL, NOMINAL + timedelta(seconds=11))
    around = replace(REQUEST, window_mode="around", window_duration=timedelta(microseconds=1))
    assert decide(around).window_start == NOMINAL - timedelta(seconds=1)  # half a microsecond before midnight
    assert decide(around).window_end == NOMINAL
    before = decide(replace(around, nominal_time=datetime(1965, 1, 1, tzinfo=UTC)))
    assert before.window_start == datetime(1964, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.mark.req("KRN-5")
def test_an_empty_window_draws_nothing_but_obeys_constraints() -> None:
    empty = replace(REQUEST, window_duration=timedelta())
    assert decide(empty).chosen_time == NOMINAL
    assert decide(empty).constraint_meta.attempts == 0
    result = decide(replace(empty, constraints=Constraints.parse(avoid=("hours=0",))))
    assert (result.chosen_time, result.unschedulable, result.constraint_meta.attempts) == (None, True, 0)
    assert result.reason == "the constraints refuse the only time of the window"


@pytest.mark.req("KRN-7")
def test_unschedulable_is_a_result_with_every_other_field_filled() -> None:
    result = decide(replace(REQUEST, constraints=Constraints.parse(only=("hours=23",))))
    assert isinstance(result, DecisionResult)
    assert result.unschedulable
    assert result.chosen_time is None
    assert result.reason == "the constraints refused all 64 candidates"
    assert result.period_id == "2026-03-01T00:00:00Z"
    assert (result.window_start, result.window_end) == (NOMINAL, NOMINAL + timedelta(hours=3))
    assert len(result.seed_hash) == 64
    assert decide(REQUEST).reason == ""


@pytest.mark.req("KRN-8")
def test_checks_run_in_the_documented_order() -> None:
    broken: dict[str, object] = {
        "identity": "",
        "window_duration": timedelta(seconds=-1),
        "window_mode": "During",
        "distribution": Distribution("normal"),
        "seed_strategy": "hourly",
        "constraints": Constraints(only=("nope=1",)),
        "timezone": "Mars/Base",
    }
    kinds = ["identity", "window", "window_mode", "distribution", "seed_strategy", "constraint", "timezone"]
    for kind, field in zip(kinds, list(broken), strict=True):
        assert kind_of(**broken) == f"invalid_{kind}"
        del broken[field]
    assert (
        kind_of(distribution=Distribution("skewLate", {"shape": "x"}), seed_strategy="")
        == "invalid_distribution"
    )


@pytest.mark.req("KRN-8")
def test_a_window_beyond_the_calendar_is_an_invalid_window() -> None:
    assert kind_of(window_duration=timedelta(days=9_000_000)) == "invalid_window"
    with pytest.raises(DecisionError) as caught:
        decide(replace(REQUEST, identity=""))
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 -- our own bytes
    assert (again.kind, str(again), again.field) == (
        "invalid_identity",
        "identity: must not be empty",
        "identity",
    )


@pytest.mark.req("KRN-9")
def test_golden_values() -> None:
    backup = DecisionRequest("prod/db-backup", NOMINAL, window_duration=timedelta(hours=3), salt="backup")
    assert decide(backup).chosen_time == utc(2026, 3, 1, 2, 32, 20)
    messages = DecisionRequest(
        "msgs/paris",
        utc(2026, 3, 2, 9),
        window_mode="around",
        window_duration=timedelta(minutes=90),
        distribution=Distribution("skewLate", {"shape": "2.5"}),
        salt="msgs",
    )
    assert decide(messages).chosen_time == utc(2026, 3, 2, 9, 27, 6)
    odd = decide(
        DecisionRequest(
            "around/odd-duration",
            utc(2026, 3, 5, 12),
            window_mode="around",
            window_duration=timedelta(hours=1, minutes=1, seconds=1),
        )
    )
    assert (odd.window_start, odd.window_end) == (utc(2026, 3, 5, 11, 29, 29), utc(2026, 3, 5, 12, 30, 30))
    assert odd.chosen_time == utc(2026, 3, 5, 11, 43, 17)


@pytest.mark.req("KRN-11")
def test_a_spread_moves_the_nominal_times_of_any_schedule() -> None:
    spread = Spread("around", timedelta(hours=2), salt="s")
    for text in ("0 12 * * *", "posix:0 12 * * *", "iso8601:2026-01-01T12:00:00Z/P1D"):
        nominal = schedules.parse(text).next_after(utc(2026, 3, 1))
        assert nominal is not None
        result = spread.decide("job", nominal)
        assert result == decide(spread.request("job", nominal))
        assert result.chosen_time is not None
        assert abs(result.chosen_time - nominal) <= timedelta(hours=1)
    chosen = [spread.decide("job", utc(2026, 3, day, 12)).chosen_time for day in range(1, 31)]
    assert any(at is not None and at.hour < 12 for at in chosen)  # around may start before the nominal time
    never = replace(spread, constraints=Constraints(only=("hours=3",)))
    assert never.decide("job", utc(2026, 3, 1, 12)).unschedulable


@pytest.mark.req("KRN-12")
def test_the_cost_does_not_depend_on_the_length_of_the_window() -> None:
    calls = {length: _calls(length) for length in (timedelta(seconds=9), timedelta(days=3_000))}
    assert len(set(calls.values())) == 1


def _calls(length: timedelta) -> int:
    """The number of function calls of one decision, which does not depend on the load of the machine."""
    import sys  # noqa: PLC0415

    count = 0

    def trace(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(trace)
    try:
        decide(replace(REQUEST, window_duration=length))
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.req("KRN-3")
@prop
@given(st.integers(1, 10**9), st.text(max_size=10))
def test_draws_stay_below_their_count(count: int, identity: str) -> None:
    assert 0 <= draw_below(count, identity=identity, key="k", salt="s") < count
    assert draw_below(1, identity=identity, key="k", salt="s") == 0
