from types import SimpleNamespace
from typing import Any

import pytest
from celery import current_app
from django.db import connection as django_connection

from scheduler_project.worker_connections import MAX_UNCHECKED_IDLE, Fixup, WorkerFixup

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("TSK-9")]

connection: Any = django_connection
MESSAGE = SimpleNamespace(request=SimpleNamespace(is_eager=False))


@pytest.fixture
def worker() -> WorkerFixup:
    app: Any = current_app
    (fixup,) = app._fixups
    assert isinstance(fixup, Fixup), "the project's application keeps connections"
    assert isinstance(fixup.worker_fixup, WorkerFixup)
    return WorkerFixup(app)


def test_a_usable_connection_outlives_the_message(worker: WorkerFixup) -> None:
    connection.ensure_connection()
    raw = connection.connection
    for _ in range(3):
        worker.on_task_prerun(MESSAGE)
        worker.on_task_postrun(MESSAGE)
    assert connection.connection is raw


def test_a_connection_left_in_the_middle_of_a_transaction_is_closed(worker: WorkerFixup) -> None:
    connection.ensure_connection()
    connection.set_autocommit(False)
    worker.on_task_postrun(MESSAGE)
    assert connection.connection is None


def test_a_connection_that_was_idle_is_checked(worker: WorkerFixup) -> None:
    connection.ensure_connection()
    worker.on_task_postrun(MESSAGE)
    worker.on_task_prerun(MESSAGE)
    assert connection.health_check_done, "used a moment ago: not asked"
    worker.on_task_postrun(MESSAGE)
    worker._last.ended -= 2 * MAX_UNCHECKED_IDLE
    worker.on_task_prerun(MESSAGE)
    assert not connection.health_check_done
