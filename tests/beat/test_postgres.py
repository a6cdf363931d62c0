import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, InterfaceError, close_old_connections, connection, transaction
from django.test import override_settings

from punctual.beat.postgres import Session, Wakeup
from punctual.execution.worker.database_session import PREPARE_THRESHOLD
from punctual.jobs.models import Job
from punctual.occurrences.models import Cursor
from punctual.occurrences.operator import trigger
from tests.execution.conftest import NOW
from tests.occurrences.factories import a_job, saved

IDLE_TIMEOUT = timedelta(milliseconds=200)
TIMEOUT = 20.0  # seconds; far longer than a notification takes

# -- the session ----------------------------------------------------------------------------------------


class FrozenBeat(threading.Thread):
    """Locks the job's cursor, as a beat does, and then does nothing until it is woken up."""

    def __init__(self, job: UUID) -> None:
        super().__init__()
        self.job, self.locked, self.wake_up = job, threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.usable = False

    def run(self) -> None:
        session = Session(IDLE_TIMEOUT)
        session.configure()
        try:
            with transaction.atomic():
                Cursor.objects.select_for_update().get(job=self.job)
                self.locked.set()
                self.wake_up.wait(TIMEOUT)
                Cursor.objects.filter(job=self.job).update(starts=99)
        except (DatabaseError, InterfaceError) as error:
            self.error = error
        close_old_connections()
        session.configure()
        self.usable = Cursor.objects.filter(job=self.job).exists()
        connection.close()


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("prepared", "threshold"), [(True, PREPARE_THRESHOLD), (False, None)])
def test_a_beat_prepares_its_statements_unless_a_pooler_forbids_it(
    *, prepared: bool, threshold: int | None
) -> None:
    connection.close()
    with override_settings(PUNCTUAL={"prepared_statements": prepared}):
        Session().configure()
    raw: Any = connection.connection
    connection.close()
    assert raw.prepare_threshold == threshold


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
@pytest.mark.req("OCC-7")
def test_the_server_frees_the_locks_of_a_frozen_beat_and_the_beat_starts_over() -> None:
    job: Job = saved(a_job("job", NOW))
    frozen = FrozenBeat(job.id)
    frozen.start()
    assert frozen.locked.wait(TIMEOUT)
    with transaction.atomic():
        assert Cursor.objects.select_for_update().get(job=job).starts == 0, (
            "the lock was waited for and is free"
        )
    frozen.wake_up.set()
    frozen.join(TIMEOUT)
    assert frozen.error is not None, "its transaction was ended"
    assert Cursor.objects.get(job=job).starts == 0
    assert frozen.usable, "it continues with another connection"


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
@pytest.mark.req("OCC-7")
def test_settings_are_applied_once_per_connection() -> None:
    session = Session()
    statements: list[str] = []

    def record(execute: object, sql: str, *args: object) -> object:
        statements.append(sql)
        return execute(sql, *args)  # type: ignore[operator]  # Django's callable

    with connection.execute_wrapper(record):
        session.configure()
        session.configure()
        connection.close()
        session.configure()
    once = [
        "SET idle_in_transaction_session_timeout = 60000",
        "SET lock_timeout = 500",
        "SET random_page_cost = 1.1",
    ]
    assert statements == once * 2


# -- waking up ------------------------------------------------------------------------------------------


@pytest.fixture
def wakeup() -> Iterator[Wakeup]:
    wakeup = Wakeup()
    yield wakeup
    wakeup.close()


@pytest.mark.postgres
@pytest.mark.req("OCC-8")
@pytest.mark.parametrize("work", ["trigger", "edit", "new job"])
def test_work_committed_by_another_process_ends_the_wait(
    transactional_db: None, wakeup: Wakeup, work: str
) -> None:
    job = saved(a_job("job", NOW))
    wakeup.wait(0.01)  # starts to listen

    def commit_work() -> None:
        if work == "trigger":
            trigger(job, args={}, now=NOW)
        elif work == "edit":
            Job.objects.filter(pk=job.pk).update(schedule="@daily")
        else:
            saved(a_job("another", NOW))
        connection.close()

    thread = threading.Thread(target=commit_work)
    started = time.monotonic()
    thread.start()
    notified = wakeup.wait(TIMEOUT)
    thread.join(timeout=10)
    assert notified
    assert time.monotonic() - started < TIMEOUT / 2


@pytest.mark.postgres
def test_without_its_listener_the_wait_is_a_plain_sleep(transactional_db: None, wakeup: Wakeup) -> None:
    wakeup.wait(0.01)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE query LIKE 'LISTEN%%' AND pid <> pg_backend_pid()"
        )
    assert wakeup.wait(0.05) is False
    assert wakeup.wait(0.05) is False


def test_without_a_notification_the_wait_takes_its_full_time(db: None, wakeup: Wakeup) -> None:
    started = time.monotonic()
    assert wakeup.wait(0.2) is False
    assert time.monotonic() - started >= 0.19
