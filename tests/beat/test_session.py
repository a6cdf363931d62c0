from datetime import timedelta
from threading import Event, Thread
from uuid import UUID

import pytest
from django.db import DatabaseError, InterfaceError, close_old_connections, connection, transaction

from beat.session import Session
from jobs.models import Job
from occurrences.models import Cursor
from tests.execution.conftest import NOW
from tests.occurrences.ledger import a_job, saved

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True), pytest.mark.req("OCC-7")]

SILENCE = timedelta(milliseconds=200)
PATIENCE = 20.0


class Frozen(Thread):
    """Takes the job's lock, as a beat does, and then nothing is heard of it until it wakes up."""

    def __init__(self, job: UUID) -> None:
        super().__init__()
        self.job, self.holds, self.wake_up = job, Event(), Event()
        self.trouble: Exception | None = None
        self.usable = False

    def run(self) -> None:
        session = Session(SILENCE)
        session.bound_silence()
        try:
            with transaction.atomic():
                Cursor.objects.select_for_update().get(job=self.job)
                self.holds.set()
                self.wake_up.wait(PATIENCE)
                Cursor.objects.filter(job=self.job).update(starts=99)
        except (DatabaseError, InterfaceError) as error:
            self.trouble = error
        close_old_connections()
        session.bound_silence()
        self.usable = Cursor.objects.filter(job=self.job).exists()
        connection.close()


def test_what_a_frozen_beat_holds_falls_free_and_the_beat_starts_over() -> None:
    job: Job = saved(a_job("job", NOW))
    frozen = Frozen(job.id)
    frozen.start()
    assert frozen.holds.wait(PATIENCE)
    with transaction.atomic():
        assert Cursor.objects.select_for_update().get(job=job).starts == 0, "waited for, and free"
    frozen.wake_up.set()
    frozen.join(PATIENCE)
    assert frozen.trouble is not None, "its transaction is gone"
    assert Cursor.objects.get(job=job).starts == 0
    assert frozen.usable, "and it goes on with another connection"


def test_a_connection_is_told_once() -> None:
    session = Session()
    told: list[str] = []

    def listen(execute: object, sql: str, *args: object) -> object:
        told.append(sql)
        return execute(sql, *args)  # type: ignore[operator]  # Django's callable

    with connection.execute_wrapper(listen):
        session.bound_silence()
        session.bound_silence()
        connection.close()
        session.bound_silence()
    once = ["SET idle_in_transaction_session_timeout = 60000", "SET random_page_cost = 1.1"]
    assert told == once * 2
