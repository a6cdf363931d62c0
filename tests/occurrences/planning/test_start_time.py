from datetime import UTC, datetime, timedelta

import pytest

from punctual import schedules
from punctual.jobs.config.cascade import Config
from punctual.occurrences.planning.start_time import Choice, choose, reach_before
from punctual.occurrences.states import Reason
from tests.occurrences.planning.test_plan import Listed

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
PLAIN = Config()


@pytest.mark.req("CHX-11")
def test_the_start_time_is_the_nominal_one_plus_stagger_and_jitter() -> None:
    schedule = schedules.parse("0 * * * * {stagger:30s, jitter:10s}")
    delay = choose(schedule, PLAIN, "my-trigger", NOW).run_at - NOW
    assert timedelta(milliseconds=4970) <= delay < timedelta(milliseconds=4970) + 10 * SECOND
    assert choose(schedule, PLAIN, "my-trigger", NOW).run_at == NOW + delay, "drawn the same everywhere"
    assert choose(schedules.parse("0 * * * *"), PLAIN, "my-trigger", NOW) == Choice(NOW)


def test_a_custom_schedule_starts_at_its_own_instants() -> None:
    assert choose(Listed(NOW), PLAIN, "job", NOW) == Choice(NOW)


@pytest.mark.req("CHX-12")
@pytest.mark.parametrize(("window", "refusal"), [(4970, None), (4969, Reason.WINDOW)])
def test_a_delay_beyond_the_window_refuses_and_an_equal_one_runs(window: int, refusal: Reason | None) -> None:
    schedule = schedules.parse(f"0 * * * * {{stagger:30s, window:{window}ms}}")
    choice = choose(schedule, PLAIN, "my-trigger", NOW)
    assert choice.refusal is refusal
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
def test_an_instant_without_a_possible_start_is_refused_as_unschedulable() -> None:
    config = Config(spread="@win(after,1h) @only(months=7)")
    assert choose(Listed(NOW), config, "job", NOW) == Choice(NOW, refusal=Reason.UNSCHEDULABLE)


@pytest.mark.req("KRN-11")
def test_a_krontab_schedule_brings_its_own_spread() -> None:
    schedule = schedules.parse("kron:0 0 * * * @win(after,3h) @seed(stable,salt=backup)")
    assert choose(schedule, PLAIN, "prod/db-backup", NOW).run_at == datetime(
        2026, 3, 1, 2, 32, 20, tzinfo=UTC
    )
