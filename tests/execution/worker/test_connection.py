"""Whatever a function leaves in its database session, the next message does not notice it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.db import connection as django_connection
from django.db import connections, transaction
from django.db.backends.signals import connection_created

from punctual import Context
from punctual import Job as DeclaredJob
from punctual.execution.worker import connection as worker_connection
from punctual.execution.worker.connection import (
    close_own_connection,
    own_connection,
    user_code,
)
from punctual.execution.worker.database_session import PREPARE_THRESHOLD
from punctual.execution.worker.work import settle_now, work
from punctual.jobs.declaration.registry import Registry, TaskFunction
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.sql import fetch_rows
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
        # No time passes: a bundle on a busy machine is not split.
        return work([run.id for run in runs], worker="w", clock=lambda: NOW, stopwatch=lambda: 0.0)


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


@pytest.mark.postgres
def test_locks_channels_and_cursors_of_a_function_end_with_it(
    runs: list[TaskRun], declared: Registry
) -> None:
    register(
        declared,
        lambda _: execute(
            *("SELECT pg_advisory_lock(1)", "LISTEN news", "SET TIME ZONE 'Asia/Kolkata'"),
            "DECLARE left_open CURSOR WITH HOLD FOR SELECT 1",
        ),
    )
    receive(runs[0])
    with own_connection():
        assert (
            query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()") == 0
        )
        assert query("SELECT count(*) FROM pg_listening_channels()") == 0
        assert query("SELECT count(*) FROM pg_cursors WHERE name = 'left_open'") == 0
        assert query("SHOW TimeZone") == "UTC"


@pytest.mark.postgres
def test_a_hook_leaves_nothing_behind_either(runs: list[TaskRun], declared: Registry) -> None:
    job = DeclaredJob("job", "@hourly")

    @job.on_complete
    def first(_: object) -> None:
        execute(*STATEMENTS["read_only"])

    @job.on_complete
    def second(_: object) -> None:
        execute(*STATEMENTS["search_path"])

    row = Occurrence.objects.get()
    Occurrence.objects.update(config=row.config | job.config)
    register(declared, lambda _: None)
    assert receive(*runs) == 2
    with own_connection():
        settle_now([row.id], clock=lambda: NOW)
    assert Occurrence.objects.get().finalized_at == NOW
    with own_connection():
        assert query("SHOW search_path") == '"$user", public'


@pytest.mark.req("EXE-6")
def test_a_transactional_function_commits_with_its_report_and_is_cleaned_up_after_it(
    runs: list[TaskRun], declared: Registry
) -> None:
    def leave_a_lock(_: Context) -> None:
        Job.objects.update(metadata={"done": "yes"})
        if connection.vendor == "postgresql":
            execute("SELECT pg_advisory_lock(1)")

    register(declared, leave_a_lock, transactional=True)
    assert receive(runs[0]) == 1
    assert Job.objects.get().metadata == {"done": "yes"}
    if connection.vendor == "postgresql":
        assert query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


# -- what stays -------------------------------------------------------------------------------------------


def query(sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def backend() -> Any:
    with own_connection():
        return query("SELECT pg_backend_pid()")


@pytest.mark.postgres
def test_the_connection_and_its_prepared_statements_outlive_functions_that_use_it(
    runs: list[TaskRun], declared: Registry
) -> None:
    register(declared, lambda _: Job.objects.count())
    before = backend()
    with own_connection():
        for _ in range(PREPARE_THRESHOLD + 1):
            fetch_rows("SELECT 1 WHERE %(yes)s", {"yes": True})
    receive(*runs)
    assert backend() == before
    with own_connection():
        assert query("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT 1 %'") == 1


@pytest.mark.postgres
@pytest.mark.parametrize(("call", "left"), [(lambda: None, "mark"), (lambda: query("SELECT 1"), "")])
def test_only_code_that_used_the_connection_costs_a_reset(call: Callable[[], object], left: str) -> None:
    with own_connection():
        execute("SET application_name = 'mark'")
        with user_code():
            call()
        assert query("SHOW application_name") == left


@pytest.mark.postgres
def test_what_the_project_sets_on_new_connections_survives_a_reset() -> None:
    def configure(connection: Any, **_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("DROP ROLE IF EXISTS tenant")
            cursor.execute("CREATE ROLE tenant")
            cursor.execute("SET statement_timeout = '7s'")
            cursor.execute('SET search_path = "it\'s", public')
            cursor.execute("SET ROLE tenant")

    connection_created.connect(configure)
    try:
        with own_connection():
            with user_code():
                execute("SET statement_timeout = 0", "SET search_path = nowhere", "RESET ROLE")
            assert query("SHOW statement_timeout") == "7s"
            assert query("SHOW search_path") == '"it\'s", public'
            assert query("SELECT current_user") == "tenant"
    finally:
        connection_created.disconnect(configure)


def test_the_project_s_connection_is_neither_used_nor_changed(
    runs: list[TaskRun], declared: Registry
) -> None:
    used = []
    register(declared, lambda _: used.append(connections["default"]))
    host = connections["default"]
    host.close()
    receive(runs[0])
    assert connections["default"] is host
    assert host.connection is None
    assert used == [session()]


def test_where_the_project_had_no_connection_it_has_none_afterwards() -> None:
    with in_a_thread_s_place():
        with own_connection():
            query("SELECT 1")
        assert connections.all(initialized_only=True) == []


@contextmanager
def in_a_thread_s_place() -> Iterator[None]:
    host = connections["default"]
    del connections["default"]
    try:
        yield
    finally:
        connections["default"] = host
