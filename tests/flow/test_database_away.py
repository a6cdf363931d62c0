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


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_scheduling_call_without_a_database_raises_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    Outage(monkeypatch).begin()
    connection.close()
    with pytest.raises(DatabaseAwayError, match="trigger: the database does not answer") as caught:
        control.trigger("job")
    assert caught.value.call == "trigger"
    monkeypatch.undo()
