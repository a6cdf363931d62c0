"""A connection of the worker's own that dies, is interrupted or is inherited costs one message at most."""

import os
import signal
import threading
from contextlib import suppress
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import OperationalError, transaction
from django.db import connection as django_connection

from punctual import Context
from punctual.execution.worker import connection as worker_connection
from punctual.execution.worker.connection import (
    MAX_UNCHECKED_IDLE,
    own_connection,
    user_code,
)
from punctual.jobs.declaration.registry import Registry
from punctual.occurrences.models import TaskRun
from tests.execution.worker.test_connection import (
    backend,
    check_the_next_message,
    execute,
    query,
    receive,
    register,
    runs,
    session,
    worker,
)

__all__ = ["runs", "worker"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("TSK-9", "PRF-2")]

connection: Any = django_connection


def kill(pid: int) -> None:
    """With the project's connection."""
    execute(f"SELECT pg_terminate_backend({pid}, 5000)")


@pytest.mark.postgres
def test_a_connection_that_died_while_idle_is_noticed(runs: list[TaskRun], declared: Registry) -> None:
    register(declared, lambda _: None)
    kill(backend())
    worker_connection._thread.own.used_at -= 2 * MAX_UNCHECKED_IDLE
    assert receive(runs[0]) == 1


@pytest.mark.postgres
def test_a_connection_that_died_a_moment_ago_costs_one_message(
    runs: list[TaskRun], declared: Registry
) -> None:
    register(declared, lambda _: None)
    kill(backend())
    with pytest.raises(OperationalError):
        receive(runs[0])
    assert receive(runs[0]) == 1


@pytest.mark.postgres
def test_a_function_whose_connection_is_killed_is_reported_on_a_new_one(
    runs: list[TaskRun], declared: Registry
) -> None:
    def be_killed(_: Context) -> None:
        with suppress(OperationalError):
            execute("SELECT pg_terminate_backend(pg_backend_pid(), 5000)")

    check_the_next_message(runs, declared, be_killed)


@pytest.mark.postgres
def test_a_function_interrupted_in_the_middle_of_a_statement_leaves_none_under_way(
    runs: list[TaskRun], declared: Registry
) -> None:
    def interrupt(*_: object) -> None:
        raise SoftTimeLimitExceeded

    def wait_too_long(_: Context) -> None:
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR2))
        timer.start()
        execute("SELECT pg_sleep(60)")

    previous = signal.signal(signal.SIGUSR2, interrupt)
    try:
        register(declared, wait_too_long)
        assert [receive(runs[0]), receive(runs[1])] == [1, 1]
    finally:
        signal.signal(signal.SIGUSR2, previous)
    assert query("SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'") == 0
    assert dict(TaskRun.objects.values_list("task__name", "state")) == {"first": "retry", "second": "success"}


@pytest.mark.postgres
def test_a_statement_of_ours_is_limited_in_idle_time_and_a_function_is_not() -> None:
    with own_connection():
        with transaction.atomic():
            assert query("SHOW idle_in_transaction_session_timeout") == "1min"
        with user_code(), transaction.atomic():
            assert query("SHOW idle_in_transaction_session_timeout") == "0"
        assert query("SHOW idle_in_transaction_session_timeout") == "1min"


@pytest.mark.postgres
def test_a_forked_child_does_not_share_the_connection() -> None:
    with own_connection():
        own = query("SELECT pg_backend_pid()")
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            with suppress(BaseException):
                os.write(writer, str(query("SELECT pg_backend_pid()")).encode())
            os._exit(0)
        os.waitpid(child, 0)
        other = int(os.read(reader, 20))
        assert other != own
        assert query("SELECT pg_backend_pid()") == own


@pytest.mark.skipif("django_connection.vendor != 'sqlite'", reason="PostgreSQL keeps it")
def test_a_file_is_closed_after_each_message(runs: list[TaskRun], declared: Registry) -> None:
    register(declared, lambda _: None)
    receive(runs[0])
    assert session().connection is None
