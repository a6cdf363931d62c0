from datetime import UTC, datetime, timedelta

import pytest

import schedules
from jobs.config import Config
from occurrences.choosing import Choice, choose, reach_before, starts_left
from tests.occurrences.test_planning import Listed

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
PLAIN = Config()


@pytest.mark.req("CHX-11")
def test_the_chosen_time_is_the_nominal_one_plus_stagger_and_jitter() -> None:
    schedule = schedules.parse("0 * * * * {stagger:30s, jitter:10s}")
    delay = choose(schedule, PLAIN, "my-trigger", NOW).run_at - NOW
    assert timedelta(milliseconds=4970) <= delay < timedelta(milliseconds=4970) + 10 * SECOND
    assert choose(schedule, PLAIN, "my-trigger", NOW).run_at == NOW + delay, "drawn the same everywhere"
    assert choose(schedules.parse("0 * * * *"), PLAIN, "my-trigger", NOW) == Choice(NOW)


def test_a_schedule_of_the_user_s_own_kind_starts_when_it_says() -> None:
    assert choose(Listed(NOW), PLAIN, "job", NOW) == Choice(NOW)


@pytest.mark.req("CHX-12")
@pytest.mark.parametrize(("window", "refusal"), [(4970, ""), (4969, "window")])
def test_a_delay_beyond_the_window_refuses_and_an_equal_one_runs(window: int, refusal: str) -> None:
    schedule = schedules.parse(f"0 * * * * {{stagger:30s, window:{window}ms}}")
    choice = choose(schedule, PLAIN, "my-trigger", NOW)
    assert choice.refusal == refusal
    assert choice.expires_at == NOW + timedelta(milliseconds=window)


@pytest.mark.req("KRN-11")
def test_a_spread_moves_any_kind_of_schedule() -> None:
    config = Config(spread="@win(after,3h) @seed(stable,salt=backup)")
    chosen = choose(schedules.parse("0 0 * * *"), config, "prod/db-backup", NOW)
    assert chosen == Choice(datetime(2026, 3, 1, 2, 32, 20, tzinfo=UTC))
    assert choose(Listed(NOW), config, "prod/db-backup", NOW) == chosen


@pytest.mark.req("KRN-11")
def test_around_may_start_before_the_nominal_time() -> None:
    config = Config(spread="@win(around,2h)")
    starts = [choose(Listed(NOW), config, f"job-{number}", NOW).run_at for number in range(40)]
    assert min(starts) < NOW < max(starts)
    assert reach_before(Listed(NOW), config) > NOW - min(starts)
    assert reach_before(Listed(NOW), PLAIN) == timedelta()


@pytest.mark.req("KRN-11")
def test_what_cannot_be_placed_is_refused_as_unschedulable() -> None:
    config = Config(spread="@win(after,1h) @only(months=7)")
    assert choose(Listed(NOW), config, "job", NOW) == Choice(NOW, refusal="unschedulable")


@pytest.mark.req("KRN-11")
def test_a_krontab_schedule_brings_its_own_spread() -> None:
    schedule = schedules.parse("kron:0 0 * * * @win(after,3h) @seed(stable,salt=backup)")
    assert choose(schedule, PLAIN, "prod/db-backup", NOW).run_at == datetime(
        2026, 3, 1, 2, 32, 20, tzinfo=UTC
    )


@pytest.mark.req("CHX-13")
@pytest.mark.parametrize(("starts", "left"), [(0, 3), (2, 1), (3, 0), (9, 0)])
def test_max_bounds_the_starts(starts: int, left: int) -> None:
    assert starts_left(schedules.parse("@hourly {max:3}"), starts) == left
    assert starts_left(schedules.parse("@hourly"), starts) is None
