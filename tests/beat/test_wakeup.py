import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from django.db import connection

from beat.wakeup import Wakeup
from jobs.models import Job
from occurrences import manual
from tests.occurrences.ledger import a_job, saved

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
LONG = 20.0  # far longer than a notification takes


@pytest.fixture
def wakeup() -> Iterator[Wakeup]:
    made = Wakeup()
    yield made
    made.close()


@pytest.mark.postgres
@pytest.mark.req("OCC-8")
@pytest.mark.parametrize("work", ["trigger", "edit", "new job"])
def test_work_committed_elsewhere_ends_the_wait(transactional_db: None, wakeup: Wakeup, work: str) -> None:
    job = saved(a_job("job", NOW))
    wakeup.wait(0.01)  # listens from now on

    def elsewhere() -> None:
        if work == "trigger":
            manual.trigger(job, args={}, now=NOW)
        elif work == "edit":
            Job.objects.filter(pk=job.pk).update(schedule="@daily")
        else:
            saved(a_job("another", NOW))
        connection.close()

    thread = threading.Thread(target=elsewhere)
    started = time.monotonic()
    thread.start()
    called = wakeup.wait(LONG)
    thread.join(timeout=10)
    assert called
    assert time.monotonic() - started < LONG / 2


@pytest.mark.postgres
def test_a_lost_listener_falls_back_to_waiting(transactional_db: None, wakeup: Wakeup) -> None:
    wakeup.wait(0.01)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE query LIKE 'LISTEN%%' AND pid <> pg_backend_pid()"
        )
    assert wakeup.wait(0.05) is False
    assert wakeup.wait(0.05) is False


def test_without_a_call_the_wait_takes_its_time(db: None, wakeup: Wakeup) -> None:
    started = time.monotonic()
    assert wakeup.wait(0.2) is False
    assert time.monotonic() - started >= 0.19
