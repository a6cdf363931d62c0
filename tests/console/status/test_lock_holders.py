"""A session that holds a row for long is named by `doctor` and on the page of workers."""

import time
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from punctual.commands.doctor import OK, WARN, examine_locks
from punctual.console.status.lock_holders import LONG, lock_holders
from punctual.jobs.models import Job
from punctual.occurrences.models import Cursor
from tests.console.ledger_rows import make_job
from tests.race.test_held_rows import holding
from tests.race.test_lock_order import other_transaction

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("PRF-2", "OPS-3"),
]

AT_ONCE = timedelta()
TIMEOUT = 20.0  # seconds


def test_the_holder_of_a_row_is_named_with_its_table_and_its_age(now: datetime) -> None:
    make_job("job", now)
    with holding(Cursor.objects.all()):
        (holder,) = lock_holders(AT_ONCE)
        assert (holder.tables, holder.state, holder.waiting) == (
            ("punctual_cursor",),
            "idle in transaction",
            0,
        )
        assert timedelta() < holder.age < timedelta(seconds=TIMEOUT)
        assert lock_holders(timedelta(hours=1)) == []
        (finding,) = examine_locks(AT_ONCE)
        assert finding.level == WARN
        assert f"session {holder.pid}" in finding.detail
        assert "punctual_cursor" in finding.detail
        assert f"pg_terminate_backend({holder.pid})" in finding.advice
    assert [finding.level for finding in examine_locks(AT_ONCE)] == [OK]


def test_a_session_that_only_reads_holds_nothing() -> None:
    with other_transaction() as other:
        other(lambda: list(Job.objects.all()))
        assert lock_holders(AT_ONCE) == []


def test_the_page_of_workers_names_the_holder(now: datetime, client: Client) -> None:
    make_job("job", now)
    client.force_login(User.objects.create_superuser("ada"))
    address = reverse("punctual_console:workers")
    assert "Held rows" not in client.get(address).content.decode()
    with holding(Job.objects.all()):
        deadline = time.monotonic() + LONG.total_seconds() + TIMEOUT
        while "Held rows" not in (page := client.get(address).content.decode()):
            assert time.monotonic() < deadline
        assert "punctual_job" in page
        assert "idle in transaction" in page
