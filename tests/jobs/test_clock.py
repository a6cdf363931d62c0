import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from punctual.jobs.clock import READ_INTERVAL, SteadyClock, database_now

pytestmark = [pytest.mark.django_db, pytest.mark.req("TSK-8")]


def test_the_database_s_clock_is_aware_utc_and_near_ours() -> None:
    now = database_now()
    assert now.tzinfo is UTC
    assert abs(now - datetime.now(UTC)) < timedelta(minutes=1)


def test_time_passes_inside_a_transaction() -> None:
    with transaction.atomic():
        first = database_now()
        deadline = datetime.now(UTC) + timedelta(seconds=10)
        while database_now() == first:
            assert datetime.now(UTC) < deadline, "the clock does not advance"
        assert database_now() > first


def test_a_steady_clock_reads_the_database_once_and_is_never_behind(
    django_assert_num_queries: Callable[[int], Any],
) -> None:
    clock = SteadyClock()
    with django_assert_num_queries(1):
        first = clock()
    if clock._reading is None:
        pytest.skip("the reading was too slow to be extrapolated")
    with django_assert_num_queries(0):
        readings = [clock() for _ in range(100)]
        last = clock()
    assert [first, *readings, last] == sorted([first, *readings, last])
    assert clock() > database_now() - timedelta(seconds=1)


def test_a_steady_clock_reads_again_after_its_interval(
    django_assert_num_queries: Callable[[int], Any],
) -> None:
    clock = SteadyClock()
    clock._reading = (datetime(2000, 1, 1, tzinfo=UTC), time.monotonic() - 2 * READ_INTERVAL)
    with django_assert_num_queries(1):
        assert clock() > datetime(2001, 1, 1, tzinfo=UTC)
