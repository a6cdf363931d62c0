from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from punctual.execution.ending.attempt_report import ATTEMPT_STATES, Begun, Report, report_of_row
from punctual.execution.ending.fingerprint import fingerprint
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import FencedError, end_runs, report
from punctual.execution.ending.settle import Settled
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from tests.execution.conftest import NOW
from tests.occurrences.factories import a_job, a_task, columns_of, saved, start_occurrence

LATER = NOW + timedelta(seconds=5)
FAILED = Result(Ending.FAILED, error_type="ValueError", error="broken", traceback="Traceback …")
SUCCESS = Result(Ending.SUCCESS)


def reported(run: TaskRun, result: Result, **facts: object) -> Report:
    run.refresh_from_db()
    token: Any = facts.get("token") or run.claim_token or uuid4()
    return report_of_row(run, token, result)


def test_every_ending_has_an_attempt_state() -> None:
    assert ATTEMPT_STATES.keys() == set(Ending)


@pytest.mark.parametrize(
    ("result", "run_state", "attempt_state", "occurrence_state"),
    [
        (SUCCESS, "success", "success", "completed"),
        (FAILED, "retry", "failed", "running"),
        (Result(Ending.TIMEOUT, error_type="Soft"), "retry", "timeout", "running"),
        (Result(Ending.LOST, error_type="WorkerLost"), "retry", "lost", "running"),
        (Result(Ending.FATAL, error_type="NonRetryable"), "dlq", "failed", "failed"),
        (Result(Ending.CANCELED, error="enough"), "canceled", "canceled", "canceled"),
        (Result(Ending.SNOOZED, delay=timedelta(seconds=5)), "retry", "snoozed", "running"),
    ],
)
def test_each_ending_moves_run_attempt_and_occurrence_together(
    job: Job, task: Task, result: Result, run_state: str, attempt_state: str, occurrence_state: str
) -> None:
    occurrence, (run,) = start_occurrence(job, NOW, task)
    settled = report([reported(run, result)], now=LATER)

    run.refresh_from_db()
    occurrence.refresh_from_db()
    attempt = Attempt.objects.get()
    assert (run.state, attempt.state, occurrence.state) == (run_state, attempt_state, occurrence_state)
    assert (run.claim_token, run.lease_until, attempt.finished_at) == (None, None, LATER)
    over = occurrence_state != "running"
    assert settled == Settled(finished=(occurrence.id,) if over else ())
    if occurrence.report is not None:
        assert occurrence.report["tasks"][0]["status"] == run_state


@pytest.mark.req("EXE-4")
def test_a_failure_keeps_the_evidence_and_waits_by_the_run_s_own_policy(job: Job, task: Task) -> None:
    _, (run,) = start_occurrence(job, NOW, task, retry={"max_retries": 3, "interval": "20s", "jitter": "0s"})
    report([reported(run, FAILED)], now=LATER)
    run.refresh_from_db()
    attempt = Attempt.objects.get()
    assert (run.error, run.available_at) == ("ValueError: broken", LATER + timedelta(seconds=20))
    assert (attempt.error_type, attempt.error, attempt.traceback) == ("ValueError", "broken", "Traceback …")


@pytest.mark.req("EXE-7")
def test_a_snooze_costs_no_attempt(job: Job, task: Task) -> None:
    _, (run,) = start_occurrence(job, NOW, task, retry={"max_retries": 0})
    TaskRun.objects.update(attempts_made=5, snoozes=4)
    report([reported(run, Result(Ending.SNOOZED, delay=timedelta(seconds=9)))], now=LATER)
    run.refresh_from_db()
    assert (run.state, run.snoozes, run.available_at) == ("retry", 5, LATER + timedelta(seconds=9))


@pytest.mark.req("TSK-5")
def test_the_last_failure_parks_the_run_with_its_cause(job: Job, task: Task) -> None:
    _, (run,) = start_occurrence(job, NOW, task, retry={"max_retries": 1})
    TaskRun.objects.update(attempts_made=2)
    report([reported(run, FAILED)], now=LATER)
    run.refresh_from_db()
    assert (run.state, run.reason, run.finished_at) == ("dlq", "failed after 2 attempts", LATER)
    assert run.fingerprint == fingerprint(FAILED)


@pytest.mark.req("EXE-6")
def test_logged_lines_are_stored_with_the_attempt(job: Job, task: Task) -> None:
    _, (run,) = start_occurrence(job, NOW, task)
    report([reported(run, replace(SUCCESS, log="loaded 17 rows"))], now=LATER)
    assert Attempt.objects.get().log == "loaded 17 rows"


@pytest.mark.req("EXE-9")
def test_a_run_that_is_handed_back_is_sent_again_and_uses_up_no_retry(job: Job, task: Task) -> None:
    _, (run,) = start_occurrence(job, NOW, task, retry={"max_retries": 0})
    settled = report([reported(run, Result(Ending.RELEASED))], now=LATER)
    assert settled == Settled(released=(run.id,))
    run.refresh_from_db()
    assert (run.state, run.available_at, run.dispatched_at) == ("scheduled", LATER, None)
    assert (run.attempts_made, run.snoozes, run.claim_token) == (1, 1, None)
    assert Attempt.objects.get().state == "released"


@pytest.mark.req("TSK-2")
@pytest.mark.parametrize("result", [SUCCESS, FAILED])
def test_a_result_with_an_old_token_changes_nothing(job: Job, task: Task, result: Result) -> None:
    occurrence, (run,) = start_occurrence(job, NOW, task)
    before = columns_of(TaskRun, run.id), columns_of(Occurrence, occurrence.id)
    late = reported(run, result, token=uuid4())
    assert report([late], now=LATER) == Settled(fenced=1)
    with pytest.raises(FencedError):
        end_runs([late], now=LATER, strict=True)
    assert (columns_of(TaskRun, run.id), columns_of(Occurrence, occurrence.id)) == before


@pytest.mark.req("TSK-2")
@pytest.mark.parametrize("state", [RunState.SUCCESS, RunState.RETRY, RunState.CANCELED, RunState.SCHEDULED])
def test_a_result_for_a_run_that_is_no_longer_running_changes_nothing(
    job: Job, task: Task, state: RunState
) -> None:
    _, (run,) = start_occurrence(job, NOW, task)
    over = {RunState.SUCCESS, RunState.CANCELED}
    TaskRun.objects.update(
        state=state, claim_token=None, lease_until=None, finished_at=NOW if state in over else None
    )
    assert report([reported(run, FAILED)], now=LATER).fenced == 1
    run.refresh_from_db()
    assert (run.state, run.error) == (state, "")


@pytest.mark.django_db
def test_a_result_for_an_unknown_occurrence_is_fenced() -> None:
    begun = Begun(uuid4(), uuid4(), 0, uuid4(), "w", NOW)
    stranger = Report(begun, uuid4(), "task", {}, 0, SUCCESS)
    assert report([stranger], now=NOW) == Settled(fenced=1)


@pytest.mark.req("EXE-1")
def test_the_first_success_of_a_sequence_releases_the_second(job: Job, task: Task, second: Task) -> None:
    occurrence, (run, waiting) = start_occurrence(job, NOW, task, second)
    TaskRun.objects.filter(id=waiting.id).update(
        state="scheduled", available_at=None, claim_token=None, lease_until=None
    )
    assert report([reported(run, SUCCESS)], now=LATER) == Settled(released=(waiting.id,))
    waiting.refresh_from_db()
    assert waiting.available_at == LATER
    occurrence.refresh_from_db()
    assert occurrence.state == OccurrenceState.RUNNING


def test_results_of_many_occurrences_in_one_call_each_settle_their_own(now: object, job: Job) -> None:
    pairs = []
    for number, result in enumerate((SUCCESS, FAILED, Result(Ending.FATAL, error_type="E"))):
        other = saved(a_job(f"job-{number}", NOW))
        pairs.append((*start_occurrence(other, NOW, saved(a_task(other))), result))
    settled = report([reported(runs[0], result) for _, runs, result in pairs], now=LATER)
    states = [columns_of(Occurrence, occurrence.id)["state"] for occurrence, _, _ in pairs]
    assert states == ["completed", "running", "failed"]
    assert set(settled.finished) == {pairs[0][0].id, pairs[2][0].id}


def test_the_number_of_statements_does_not_depend_on_the_number_of_results(db: None) -> None:
    costs = []
    for size in (1, 10):
        runs = []
        for number in range(size):
            job = saved(a_job(f"job-{size}-{number}", NOW))
            runs += start_occurrence(job, NOW, saved(a_task(job)))[1]
        reports = [reported(run, SUCCESS) for run in runs]
        with CaptureQueriesContext(connection) as queries:
            assert len(report(reports, now=LATER).finished) == size
        costs.append(len(queries))
    assert costs[0] == costs[1]


def test_a_report_of_many_failures_at_once_is_within_the_database_s_limits(db: None) -> None:
    runs = []
    for number in range(200):
        job = saved(a_job(f"job-{number}", NOW))
        runs += start_occurrence(job, NOW, saved(a_task(job)))[1]
    report([reported(run, FAILED) for run in runs], now=LATER)
    assert TaskRun.objects.filter(state="retry", error="ValueError: broken").count() == 200
