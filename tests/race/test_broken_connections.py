"""A connection breaks while a result is written: the next try writes it, or finds it written."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError, connection

from punctual import Context, Job, Retry
from punctual.execution.ending.attempt_report import Report
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import report
from punctual.execution.ending.settle import Settled
from punctual.execution.worker.claim import claim, report_of_claim
from punctual.execution.worker.work import retry_while_database_is_away, work
from punctual.occurrences import transitions
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from tests.harness import Harness
from tests.race.release import noop
from tests.race.test_lock_order import closing, fire, other_transaction
from tests.race.threads import TIMEOUT, wait_until_blocked

ENDINGS = (Ending.SUCCESS, Ending.FAILED, Ending.FATAL, Ending.SNOOZED, Ending.RELEASED, Ending.CANCELED)
WITHOUT_ERROR = (Ending.SUCCESS, Ending.SNOOZED, Ending.RELEASED)


def claimed_report(harness: Harness, ending: Ending, members: int) -> Report:
    job = Job("job", "*/10 * * * * *", mode="parallel", retry=Retry(1, "1m"))
    for number in range(members):
        job.task(name=f"step {number}")(noop)
    first, *others = fire(harness)
    for other in others:
        (neighbour,) = claim([other.id], worker="w", now=harness.now)
        report([report_of_claim(neighbour, Result(Ending.SUCCESS))], now=harness.now)
    (item,) = claim([first.id], worker="w", now=harness.now)
    error = "" if ending in WITHOUT_ERROR else "Broken"
    return report_of_claim(item, Result(ending, error_type=error, error=error))


def rows() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in (Occurrence, TaskRun, Attempt)]


@pytest.mark.req("TSK-9")
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_report_whose_answer_was_lost_is_written_once(
    harness: Harness, ending: Ending, members: int
) -> None:
    item = claimed_report(harness, ending, members)
    written: list[Any] = []

    def loses_the_first_answer() -> Settled:
        settled = report([item], now=harness.now)
        if written:
            return settled
        written.extend(rows())
        raise OperationalError("the connection broke")

    settled = retry_while_database_is_away(loses_the_first_answer, sleep=lambda _: None)
    assert settled.fenced == 1
    assert rows() == written
    open_runs = TaskRun.objects.filter(state__in=["scheduled", "retry"]).exists()
    assert Occurrence.objects.active().exists() == open_runs


@pytest.mark.req("TSK-9")
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("ending", [Ending.SUCCESS, Ending.FAILED, Ending.FATAL])
def test_a_report_whose_server_process_dies_in_the_middle_is_written_by_the_next_try(
    harness: Harness, ending: Ending, members: int
) -> None:
    item = claimed_report(harness, ending, members)
    repeat = partial(retry_while_database_is_away, partial(report, [item], now=harness.now))
    paused = Event()
    with ThreadPoolExecutor(1) as pool:
        with other_transaction() as other:
            other(lambda: transitions.lock_occurrences([item.occurrence_id]))
            reporting = pool.submit(closing, partial(repeat, sleep=lambda _: paused.set()))
            wait_until_blocked()
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
                )
            assert paused.wait(TIMEOUT)
            wait_until_blocked()
        assert reporting.result(TIMEOUT).fenced == 0
    run = TaskRun.objects.get(id=item.begun.run)
    states = {Ending.SUCCESS: "success", Ending.FAILED: "retry", Ending.FATAL: "dlq"}
    assert (run.state, run.attempts_made, run.attempts.count()) == (states[ending], 1, 1)
    assert Occurrence.objects.active().exists() == (ending is Ending.FAILED)


@pytest.mark.req("EXE-6", "TSK-9")
def test_a_transactional_function_whose_server_process_dies_is_recorded_as_failed(harness: Harness) -> None:
    job = Job("job", "*/10 * * * * *", retry=Retry(1, "1m"))

    @job.task(transactional=True)
    def dies(_: Context) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (pid,) = cursor.fetchone()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(closing, lambda: terminate(pid)).result(TIMEOUT)

    (run,) = fire(harness)
    assert work([run.id], worker="w", clock=harness.clock) == 1
    run.refresh_from_db()
    assert (run.state, run.attempts_made, run.attempts.get().state) == ("retry", 1, "failed")


def terminate(pid: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
