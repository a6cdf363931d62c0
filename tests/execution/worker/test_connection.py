"""Whatever a function leaves in its database session, the next message does not notice it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.db import connection as django_connection
from django.db import connections, transaction

from punctual import Context
from punctual.execution.worker import connection as worker_connection
from punctual.execution.worker.connection import close_own_connection, own_connection
from punctual.execution.worker.work import work
from punctual.jobs.declaration.registry import Registry, TaskFunction
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Attempt, TaskRun
from punctual.occurrences.states import OccurrenceState
from tests.execution.conftest import NOW
from tests.harness import Harness
from tests.occurrences.factories import a_run, an_occurrence, saved

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("TSK-9", "PRF-2")]

connection: Any = django_connection


@pytest.fixture(autouse=True)
def worker(queue: Harness) -> Iterator[None]:
    yield
    close_own_connection()


@pytest.fixture
def runs(job: Job, task: Task, second: Task) -> list[TaskRun]:
    occurrence = saved(an_occurrence(job, NOW, OccurrenceState.DISPATCHED))
    return [saved(a_run(occurrence, task)), saved(a_run(occurrence, second))]


def register(declared: Registry, call: Callable[[Context], object], *, transactional: bool = False) -> None:
    declared.functions["nowhere.first"] = TaskFunction("nowhere.first", call, transactional)
    declared.functions["nowhere.second"] = TaskFunction("nowhere.second", lambda _: None)


def receive(*runs: TaskRun) -> int:
    """A message, as a worker's process works on it."""
    with own_connection():
        return work([run.id for run in runs], worker="w", clock=lambda: NOW)


def execute(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def session() -> Any:
    return worker_connection._thread.own.session


# -- what functions leave behind --------------------------------------------------------------------------


def raw_begin(_: Context) -> None:
    execute("BEGIN", "SELECT 1")


def raw_begin_beside_django(_: Context) -> None:
    connection.connection.execute("BEGIN")


def failed_transaction(_: Context) -> None:
    execute("BEGIN")
    with suppress(Exception):
        execute("SELECT * FROM nowhere")


def unfinished_atomic(_: Context) -> None:
    transaction.atomic().__enter__()
    Job.objects.update(metadata={"half": "done"})


def broken_atomic(_: Context) -> None:
    transaction.atomic().__enter__()
    transaction.set_rollback(True)


def autocommit_off(_: Context) -> None:
    transaction.set_autocommit(False)


def closed(_: Context) -> None:
    connection.close()


def closed_in_a_transaction(_: Context) -> None:
    transaction.atomic().__enter__()
    connection.close()


def closed_beside_django(_: Context) -> None:
    connection.connection.close()


def replaced(_: Context) -> None:
    connections["default"] = connections.create_connection("default")
    transaction.atomic().__enter__()
    execute("SELECT 1")


def removed(_: Context) -> None:
    del connections["default"]


def refusing_wrapper(_: Context) -> None:
    def refuse(*_args: Any) -> None:
        raise RuntimeError("no statement is allowed")

    connection.execute_wrappers.append(refuse)
    Job.objects.update(metadata={})


def stranger(_: Context) -> None:
    connection.run_on_commit.append((set(), lambda: None, False))
    connection.ensure_connection()


ANY_DATABASE = (
    *(raw_begin, unfinished_atomic, broken_atomic, autocommit_off, closed, closed_in_a_transaction),
    *(closed_beside_django, replaced, removed, stranger),
)

STATEMENTS = {
    "search_path": ["CREATE SCHEMA IF NOT EXISTS elsewhere", "SET search_path = elsewhere"],
    "role": ["DROP ROLE IF EXISTS poor", "CREATE ROLE poor", "SET ROLE poor"],
    "authorization": ["DROP ROLE IF EXISTS poor", "CREATE ROLE poor", "SET SESSION AUTHORIZATION poor"],
    "read_only": ["SET default_transaction_read_only = on"],
    "characteristics": ["SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"],
    "temporary_table": [
        "CREATE TEMP TABLE punctual_taskrun (LIKE public.punctual_taskrun)",
        "CREATE TEMP TABLE punctual_occurrence (LIKE public.punctual_occurrence)",
    ],
    "statement_timeout": ["SET statement_timeout = 1"],
    "lock_timeout": ["SET lock_timeout = 1"],
    "replica": ["SET session_replication_role = replica"],
    "time_zone": ["SET TIME ZONE 'Asia/Kolkata'"],
    "discarded": ["DISCARD ALL"],
}


def leave(name: str) -> Callable[[Context], None]:
    return lambda _: execute(*STATEMENTS[name])


def check_the_next_message(runs: list[TaskRun], declared: Registry, call: Callable[..., object]) -> None:
    register(declared, call)
    assert [receive(runs[0]), receive(runs[1])] == [1, 1]
    states = dict(TaskRun.objects.values_list("task__name", "state"))
    assert states == {"first": "success", "second": "success"}
    assert Attempt.objects.count() == 2
    assert Job.objects.get().metadata == {}, "what was not committed is rolled back"


@pytest.mark.parametrize("call", ANY_DATABASE, ids=lambda call: call.__name__)
def test_what_a_function_leaves_behind_does_not_reach_the_next_message(
    runs: list[TaskRun], declared: Registry, call: Callable[..., object]
) -> None:
    check_the_next_message(runs, declared, call)


@pytest.mark.postgres
@pytest.mark.parametrize(
    "call", [raw_begin_beside_django, failed_transaction], ids=lambda call: call.__name__
)
def test_a_transaction_django_does_not_know_of_is_rolled_back(
    runs: list[TaskRun], declared: Registry, call: Callable[..., object]
) -> None:
    check_the_next_message(runs, declared, call)


@pytest.mark.postgres
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_setting_of_the_session_does_not_reach_the_next_message(
    runs: list[TaskRun], declared: Registry, name: str
) -> None:
    check_the_next_message(runs, declared, leave(name))


@pytest.mark.postgres
@pytest.mark.parametrize("name", STATEMENTS)
def test_nor_the_rest_of_a_bundle(runs: list[TaskRun], declared: Registry, name: str) -> None:
    register(declared, leave(name))
    assert receive(*runs) == 2
    assert set(TaskRun.objects.values_list("state", flat=True)) == {"success"}


def test_a_wrapper_around_statements_is_taken_off(runs: list[TaskRun], declared: Registry) -> None:
    register(declared, refusing_wrapper)
    receive(runs[0])
    assert receive(runs[1]) == 1
    assert dict(TaskRun.objects.values_list("task__name", "state")) == {"first": "retry", "second": "success"}
