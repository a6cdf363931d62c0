from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual import schedules
from punctual.jobs.config.cascade import Config
from punctual.occurrences.planning.instants import (
    LOOKAHEAD,
    MAX_INSTANTS_PER_PLAN,
    Choice,
    choose,
    plan,
    reach_before,
)
from punctual.occurrences.states import Reason

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
PLAIN = Config()

instants = st.datetimes(
    min_value=datetime(2020, 1, 1),  # noqa: DTZ001 - the strategy adds the zone
    max_value=datetime(2030, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
texts = st.sampled_from(
    ["* * * * *", "*/10 * * * * *", "0 2 * * *", "@every 7s", "@every 36h", "0 0 29 2 *", "@once +3h"]
)


class Listed:
    """A schedule with exactly these instants."""

    def __init__(self, *instants: datetime) -> None:
        self.instants = instants

    def next_after(self, instant: datetime, /) -> datetime | None:
        return min((item for item in self.instants if item > instant), default=None)

    def between(self, start: datetime, end: datetime, /) -> Iterator[datetime]:
        return iter(sorted(item for item in self.instants if start < item <= end))


@given(texts, instants, instants)
def test_plans_are_strictly_increasing_after_the_start_and_reach_ahead_of_now(
    text: str, start: datetime, now: datetime
) -> None:
    schedule = schedules.parse(text, reference=start, trigger_id="job")
    made = plan(schedule, start=start, now=now)

    assert all(
        earlier < later for earlier, later in zip((start, *made.instants), made.instants, strict=False)
    )
    assert made.planned_until == (made.instants[-1] if made.instants else start)
    assert len(made.instants) <= MAX_INSTANTS_PER_PLAN
    if made.plan_at is None:
        assert schedule.next_after(made.planned_until) is None
    elif len(made.instants) < MAX_INSTANTS_PER_PLAN:
        assert made.planned_until > now
    else:
        assert made.plan_at == made.planned_until


@given(texts, instants, instants)
def test_planning_on_from_where_a_plan_ended_skips_and_repeats_nothing(
    text: str, start: datetime, now: datetime
) -> None:
    schedule = schedules.parse(text, reference=start, trigger_id="job")
    first = plan(schedule, start=start, now=now)
    second = plan(schedule, start=first.planned_until, now=now + timedelta(minutes=5))
    found = [*first.instants, *second.instants]
    expected: list[datetime] = []
    reached = start
    while len(expected) < len(found) and (following := schedule.next_after(reached)) is not None:
        expected.append(following)
        reached = following
    assert found == expected


def test_one_instant_ahead_is_planned_however_far_away_it_is() -> None:
    far = NOW + timedelta(days=300)
    made = plan(Listed(far, far + SECOND), start=NOW, now=NOW)
    assert (made.instants, made.planned_until, made.plan_at) == ((far,), far, far)


def test_everything_within_the_look_ahead_is_planned_and_nothing_beyond_it() -> None:
    steps = [NOW + timedelta(seconds=offset) for offset in (10, 60, 61)]
    assert steps[1] == NOW + LOOKAHEAD
    assert plan(Listed(*steps), start=NOW, now=NOW).instants == (steps[0], steps[1])


def test_an_instant_exactly_now_does_not_count_as_ahead() -> None:
    later = NOW + timedelta(days=1)
    assert plan(Listed(NOW, later), start=NOW - SECOND, now=NOW).instants == (NOW, later)


def test_a_schedule_that_has_ended_is_never_planned_again() -> None:
    made = plan(Listed(NOW + SECOND), start=NOW, now=NOW)
    assert (made.instants, made.plan_at) == ((NOW + SECOND,), None)
    again = plan(Listed(NOW + SECOND), start=NOW + SECOND, now=NOW + SECOND)
    assert (again.instants, again.planned_until, again.plan_at) == ((), NOW + SECOND, None)


def test_nothing_is_added_while_what_is_planned_lies_ahead() -> None:
    ahead = NOW + timedelta(hours=1)
    made = plan(Listed(ahead, ahead + timedelta(hours=1)), start=ahead, now=NOW)
    assert (made.instants, made.planned_until, made.plan_at) == ((), ahead, ahead)


def test_a_long_backlog_is_cut_into_portions_that_are_due_at_once() -> None:
    schedule = schedules.parse("@every 1s", reference=NOW)
    now = NOW + timedelta(seconds=2 * MAX_INSTANTS_PER_PLAN)
    made = plan(schedule, start=NOW, now=now)
    assert len(made.instants) == MAX_INSTANTS_PER_PLAN
    assert made.plan_at == NOW + timedelta(seconds=MAX_INSTANTS_PER_PLAN) < now


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
