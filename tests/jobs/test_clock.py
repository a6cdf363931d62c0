from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from jobs.clock import database_now

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
