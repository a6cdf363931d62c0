import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from jobs.clock import READ_EVERY, SteadyClock, database_now

pytestmark = [pytest.mark.django_db, pytest.mark.req("TSK-8")]


def test_the_database_s_clock_is_aware_utc_and_near_ours() -> None:
    now = database_now()
    assert now.tzinfo is UTC
    assert abs(now - datetime.now(UTC)) < timedelta(minutes=1)


def test_time_goes_on_inside_a_transaction() -> None:
    with transaction.atomic():
        first = database_now()
        deadline = datetime.now(UTC) + timedelta(seconds=10)
        while database_now() == first:
            assert datetime.now(UTC) < deadline, "the clock stands still"
        assert database_now() > first


def test_a_steady_clock_asks_the_database_once_and_never_lags_behind(
    django_assert_num_queries: Callable[[int], Any],
) -> None:
    clock = SteadyClock()
    with django_assert_num_queries(1):
        first = clock()
    if clock._reading is None:
        pytest.skip("the answer took so long that nothing is built upon it")
    with django_assert_num_queries(0):
        readings = [clock() for _ in range(100)]
        last = clock()
    assert [first, *readings, last] == sorted([first, *readings, last])
    assert clock() > database_now() - timedelta(seconds=1)


def test_a_steady_clock_that_was_not_asked_for_a_while_asks_again(
    django_assert_num_queries: Callable[[int], Any],
) -> None:
    clock = SteadyClock()
    clock._reading = (datetime(2000, 1, 1, tzinfo=UTC), time.monotonic() - 2 * READ_EVERY)
    with django_assert_num_queries(1):
        assert clock() > datetime(2001, 1, 1, tzinfo=UTC)
