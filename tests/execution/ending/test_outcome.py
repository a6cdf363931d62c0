from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.execution.ending.outcome import Ending, Exhaust, Outcome, Result, Stop, Succeed, Wait, decide
from punctual.jobs.config.retry import Retry

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
SEED = UUID("e02410a7-3d4e-5c52-8bfe-e94060e83eb8")
FAILURES = (Ending.FAILED, Ending.TIMEOUT, Ending.LOST)


def decided(result: Result, retry: Retry, *, failures: int = 1, seed: UUID = SEED) -> Outcome:
    return decide(result, retry, failures=failures, seed=seed, now=NOW)


@pytest.mark.parametrize("failures", [1, 99])
def test_success_succeeds_whatever_happened_before(failures: int) -> None:
    assert decided(Result(Ending.SUCCESS), Retry(0), failures=failures) == Succeed()


@pytest.mark.req("EXE-4")
@pytest.mark.parametrize("ending", FAILURES)
def test_a_failure_waits_as_long_as_attempts_are_left_and_is_exhausted_then(ending: Ending) -> None:
    retry = Retry(2, "30s", backoff=2, jitter="0s")
    outcomes = [decided(Result(ending), retry, failures=number) for number in (1, 2, 3)]
    assert outcomes == [
        Wait(NOW + timedelta(seconds=30)),
        Wait(NOW + timedelta(minutes=1)),
        Exhaust(f"{ending.value} after 3 attempts"),
    ]


@pytest.mark.req("EXE-4")
@pytest.mark.parametrize("ending", FAILURES)
def test_without_retries_the_first_failure_is_the_last(ending: Ending) -> None:
    assert decided(Result(ending), Retry(0)) == Exhaust(f"{ending.value} after 1 attempts")


@pytest.mark.req("EXE-7")
def test_a_task_that_asks_for_a_delay_gets_it_instead_of_the_policy_s() -> None:
    result = Result(Ending.FAILED, delay=timedelta(seconds=7))
    assert decided(result, Retry(1, "1h")) == Wait(NOW + timedelta(seconds=7))
    assert decided(Result(Ending.FAILED, delay=timedelta()), Retry(1, "1h")) == Wait(NOW)
    assert isinstance(decided(result, Retry(1, "1h"), failures=2), Exhaust), "asking adds no attempt"


@pytest.mark.req("EXE-7")
@pytest.mark.parametrize("failures", [0, 1, 99])
def test_a_snooze_waits_whatever_the_policy_says(failures: int) -> None:
    result = Result(Ending.SNOOZED, delay=timedelta(seconds=5))
    assert decided(result, Retry(0), failures=failures) == Wait(NOW + timedelta(seconds=5))


@pytest.mark.req("EXE-7")
def test_a_fatal_error_is_exhausted_at_once() -> None:
    assert decided(Result(Ending.FATAL), Retry(10)) == Exhaust("non-retryable")


@pytest.mark.req("EXE-7")
def test_a_canceled_run_stops_with_the_reason_the_task_gave() -> None:
    assert decided(Result(Ending.CANCELED, error="nothing to do"), Retry(10)) == Stop("nothing to do")
    assert decided(Result(Ending.CANCELED), Retry(10)) == Stop("canceled by the task")


@pytest.mark.req("EXE-7")
@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.SNOOZED])
def test_a_delay_beyond_the_calendar_is_cut_instead_of_losing_the_result(ending: Ending) -> None:
    outcome = decided(Result(ending, delay=timedelta.max), Retry(1))
    assert isinstance(outcome, Wait)
    assert outcome.at > NOW + timedelta(days=365)


@pytest.mark.req("EXE-4")
@given(st.uuids(), st.integers(1, 50))
def test_jitter_is_drawn_the_same_everywhere_and_stays_in_its_bounds(seed: UUID, failures: int) -> None:
    retry = Retry(100, "10s", jitter="20s")
    first = decided(Result(Ending.FAILED), retry, failures=failures, seed=seed)
    assert first == decided(Result(Ending.FAILED), retry, failures=failures, seed=seed)
    assert isinstance(first, Wait)
    assert timedelta(seconds=10) <= first.at - NOW < timedelta(seconds=30)


@pytest.mark.req("EXE-4")
def test_jitter_spreads_runs_that_fail_together_and_the_attempts_of_one_run() -> None:
    retry = Retry(100, "10s", jitter="1h")
    together = {decided(Result(Ending.FAILED), retry, seed=uuid4()) for _ in range(50)}
    in_a_row = {decided(Result(Ending.FAILED), retry, failures=number) for number in range(1, 51)}
    assert (len(together), len(in_a_row)) == (50, 50)


@given(st.sampled_from(Ending), st.integers(1, 10**5), st.integers(0, 10_000))
def test_every_ending_has_an_outcome_and_no_failure_waits_beyond_its_attempts(
    ending: Ending, failures: int, most: int
) -> None:
    outcome = decided(Result(ending), Retry(most, "1s"), failures=failures)
    if ending in FAILURES:
        assert isinstance(outcome, Exhaust) == (failures > most)
