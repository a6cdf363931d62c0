"""A result is kept during a database outage, recorded once afterwards, and fenced by its claim token."""

from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connection, transaction

from punctual import Context, Job, Retry
from punctual.execution.worker.work import retry_while_database_is_away
from punctual.jobs import control
from punctual.jobs.errors import DatabaseAwayError
from punctual.occurrences.models import Attempt, Occurrence
from tests.harness import Harness, at_the_hour

pytestmark = pytest.mark.req("TSK-9")


class Away:
    """Raise for the first `times` calls, as without a database."""

    def __init__(self, times: int, error: Exception) -> None:
        self.left, self.error = times, error
        self.slept: list[float] = []

    def __call__(self) -> str:
        if self.left:
            self.left -= 1
            raise self.error
        return "recorded"

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("error", [OperationalError("server closed"), InterfaceError("connection closed")])
def test_a_step_is_repeated_until_the_database_answers(error: Exception) -> None:
    away = Away(3, error)
    assert retry_while_database_is_away(away, sleep=away.sleep) == "recorded"
    assert away.slept == [1.0, 1.0, 1.0]


@pytest.mark.django_db(transaction=True)
def test_waiting_for_the_database_ends_and_other_errors_are_raised_at_once() -> None:
    away = Away(99, OperationalError("server closed"))
    with pytest.raises(OperationalError):
        retry_while_database_is_away(away, max_wait=5, sleep=away.sleep)
    assert len(away.slept) == 5
    broken = Away(1, ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        retry_while_database_is_away(broken, sleep=broken.sleep)
    assert broken.slept == []


@pytest.mark.django_db(transaction=True)
def test_within_a_transaction_nothing_is_repeated() -> None:
    away = Away(1, OperationalError("server closed"))
    with pytest.raises(OperationalError), transaction.atomic():
        retry_while_database_is_away(away, sleep=away.sleep)
    assert away.slept == []


class Outage:
    """From `begin` on the connection is cut and none can be made, until a caller has waited four times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.away, self.waited = False, 0
        self.connect = connection.get_new_connection
        monkeypatch.setattr(connection, "get_new_connection", self.get_new_connection)
        defaults = {"max_wait": 900.0, "sleep": self.wait}
        monkeypatch.setattr(retry_while_database_is_away, "__kwdefaults__", defaults)

    def begin(self) -> None:
        connection.ensure_connection()
        connection.connection.close()
        self.away = True

    def wait(self, _seconds: float) -> None:
        self.waited += 1
        self.away = self.waited < 4

    def get_new_connection(self, parameters: Any) -> Any:
        if self.away:
            raise OperationalError("connection refused")
        return self.connect(parameters)


@pytest.mark.postgres
@pytest.mark.parametrize("transactional", [False, True])
def test_a_result_during_a_database_outage_is_recorded_afterwards(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, *, transactional: bool
) -> None:
    outage = Outage(monkeypatch)
    calls = []

    def body(ctx: Context) -> None:
        calls.append(ctx.attempt)
        if len(calls) == 1:
            outage.begin()

    Job("job", "0 * * * *", retry=Retry(3, "1s")).task(transactional=transactional)(body)
    at_the_hour(harness)
    harness.work()
    harness.live(seconds=5)
    assert outage.waited == 4
    (row,) = Occurrence.objects.filter(finished_at__isnull=False)
    assert row.state == "completed"
    states = list(Attempt.objects.order_by("number").values_list("state", flat=True))
    # The transaction of the task was lost with the connection, so the attempt failed and the task ran again.
    assert states == (["failed", "success"] if transactional else ["success"])
    assert len(calls) == len(states)


def execute(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


class Refusal:
    """From `begin` on the server refuses writes, until a caller has waited twice."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, begin: list[str], end: list[str]) -> None:
        self.statements, self.waited = (begin, end), 0
        defaults = {"max_wait": 900.0, "sleep": self.wait}
        monkeypatch.setattr(retry_while_database_is_away, "__kwdefaults__", defaults)

    def begin(self) -> None:
        execute(*self.statements[0])

    def wait(self, _seconds: float) -> None:
        self.waited += 1
        if self.waited == 2:
            execute(*self.statements[1])


def raising(sqlstate: str) -> tuple[list[str], list[str]]:
    """The server itself raises the error, where a run is written."""
    function = f"BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '{sqlstate}'; END"
    begin = [
        f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ {function} $$",
        "CREATE TRIGGER refuse BEFORE UPDATE ON punctual_taskrun EXECUTE FUNCTION refuse()",
    ]
    return begin, ["DROP FUNCTION refuse CASCADE"]


def read_only() -> tuple[list[str], list[str]]:
    name = f'"{connection.settings_dict["NAME"]}"'
    setting = "default_transaction_read_only"
    return (
        [f"ALTER DATABASE {name} SET {setting} = on", f"SET {setting} = on"],
        [f"SET {setting} = off", f"ALTER DATABASE {name} RESET {setting}"],
    )


SQLSTATES = {
    "read-only": "25006",
    "frozen for too long": "25P03",
    "disk full": "53100",
    "out of memory": "53200",
    "too many connections": "53300",
    "stopped by its operator": "57P01",
    "crashed": "57P02",
    "starting": "57P03",
    "statement timeout": "57014",
    "lock timeout": "55P03",
    "deadlock": "40P01",
    "serialization failure": "40001",
    "input or output error": "58030",
}


@pytest.mark.postgres
@pytest.mark.parametrize("reason", [*SQLSTATES, "really read-only"])
def test_a_finished_result_waits_while_the_server_cannot_write(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    statements = raising(SQLSTATES[reason]) if reason in SQLSTATES else read_only()
    refusal = Refusal(monkeypatch, *statements)
    calls = []

    def body(ctx: Context) -> None:
        calls.append(ctx.attempt)
        refusal.begin()

    Job("job", "0 * * * *", retry=Retry(3, "1s")).task(body)
    at_the_hour(harness)
    harness.work()
    assert refusal.waited == 2
    assert [row.state for row in Attempt.objects.all()] == ["success"]
    assert len(calls) == 1
    assert Occurrence.objects.filter(state="completed").count() == 1


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_scheduling_call_without_a_database_raises_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    Outage(monkeypatch).begin()
    connection.close()
    with pytest.raises(DatabaseAwayError, match="trigger: the database does not answer") as caught:
        control.trigger("job")
    assert caught.value.call == "trigger"
    monkeypatch.undo()
