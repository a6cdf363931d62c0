"""The outcome of an occurrence when a task fails, raises a control exception, or is not registered."""

from datetime import timedelta
from typing import Any

import pytest

from punctual import Cancel, Context, Job, NonRetryable, Retry, RetryAfter, Snooze, scheduled
from punctual.execution.ending.cancel import cancel_now
from punctual.jobs.models import Task
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import Reason
from tests.harness import Harness, at_the_hour, states_of


def fail(ctx: Context) -> None:
    raise ValueError("broken")


def succeed(ctx: Context) -> None: ...


@pytest.mark.req("TSK-5")
@pytest.mark.req("EXE-3")
def test_exhausted_retries_park_the_run_and_fail_the_occurrence(harness: Harness) -> None:
    Job("doomed", "* * * * *", retry=Retry(2, "1s")).task(fail)
    harness.sync()
    harness.live(seconds=40)

    assert states_of(harness.attempts("doomed")) == ["failed"] * 3
    (run,) = harness.runs("doomed")
    assert (run.state, run.reason, run.error) == (
        "dlq",
        "failed after 3 attempts",
        "ValueError: broken",
    )
    assert harness.finished("doomed") == ["failed"]
    attempt = harness.attempts("doomed")[0]
    assert attempt.error_type == "ValueError"
    assert "raise ValueError" in attempt.traceback


@pytest.mark.req("EXE-2")
def test_fail_fast_cancels_the_rest_but_clean_up_still_runs(harness: Harness) -> None:
    job = Job("sequence", "* * * * *", retry=Retry(0))
    job.task(name="first")(fail)
    job.task(name="second")(succeed)
    job.task(name="clean up", failure_strategy="continue")(succeed)
    harness.sync()
    harness.live(seconds=31)

    assert states_of(harness.runs("sequence")) == ["dlq", "canceled", "success"]
    assert harness.finished("sequence") == ["failed"]


@pytest.mark.req("EXE-2")
def test_fail_fast_reaches_parallel_neighbours_that_have_not_started(harness: Harness) -> None:
    job = Job("fan", "* * * * *", mode="parallel", retry=Retry(0))
    job.task(name="bad")(fail)
    job.task(name="good")(succeed)
    job.task(name="clean up", failure_strategy="continue")(succeed)
    harness.sync()
    harness.live(seconds=31)

    assert states_of(harness.runs("fan")) == ["dlq", "canceled", "success"]
    assert len(harness.attempts("fan")) == 2
    assert harness.finished("fan") == ["failed"]


@pytest.mark.req("EXE-8")
@pytest.mark.parametrize("others", [0, 1])
def test_the_report_lists_every_attempt_with_its_wait_and_what_canceled_the_rest(
    harness: Harness, others: int
) -> None:
    job = Job("flaky", "0 * * * *", retry=Retry(2, "10s", jitter="0s"))
    job.task(name="bad")(fail)
    for number in range(others):
        job.task(name=f"later-{number}")(succeed)
    harness.now = harness.now.replace(minute=59, second=59)
    harness.sync()
    harness.live(seconds=90)

    (occurrence,) = [row for row in harness.occurrences("flaky") if row.finished_at]
    report: Any = occurrence.report
    bad, *rest = report["tasks"]
    assert (bad["status"], bad["attempts_made"], bad["canceled_by"]) == ("dlq", 3, None)
    assert [item["status"] for item in bad["attempts"]] == ["failed"] * 3
    assert [item["error"] for item in bad["attempts"]] == ["ValueError: broken"] * 3
    first, *retries = (item["waited"] for item in bad["attempts"])
    assert first == 0
    assert all(wait >= 10 for wait in retries), "the wait before a retry is in the report"
    rows = harness.attempts("flaky")
    assert (bad["started_at"], bad["finished_at"]) == (
        rows[0].started_at.isoformat(),
        rows[2].finished_at.isoformat() if rows[2].finished_at else "",
    )
    assert bad["duration"] >= sum(retries), "from the first start to the last end"
    assert [(task["status"], task["canceled_by"], task["attempts"]) for task in rest] == [
        ("canceled", "bad", [])
    ] * others


@pytest.mark.req("EXE-3")
def test_continue_runs_everything_and_completes_with_errors(harness: Harness) -> None:
    job = Job("tolerant", "* * * * *", failure_strategy="continue", retry=Retry(0))
    job.task(name="bad")(fail)
    job.task(name="good")(succeed)
    harness.sync()
    harness.live(seconds=31)

    assert states_of(harness.runs("tolerant")) == ["dlq", "success"]
    assert harness.finished("tolerant") == ["completed_with_errors"]


@pytest.mark.req("EXE-7")
def test_control_exceptions_choose_the_outcome(harness: Harness) -> None:
    @scheduled("0 * * * *", name="cancel")
    def cancel(ctx: Context) -> None:
        raise Cancel("nothing to do")

    @scheduled("0 * * * *", name="fatal")
    def fatal(ctx: Context) -> None:
        raise NonRetryable("bad data")

    @scheduled("0 * * * *", name="later", retry=Retry(1, "1h"))
    def later(ctx: Context) -> None:
        if ctx.attempt == 0:
            raise RetryAfter(timedelta(seconds=7))

    @scheduled("0 * * * *", name="snooze", retry=Retry(0))
    def snooze(ctx: Context) -> None:
        if ctx.attempt < 3:
            raise Snooze(5)

    harness.now = harness.now.replace(minute=59, second=59)
    harness.sync()
    harness.live(seconds=1)
    assert harness.runs("later")[0].available_at == harness.now + timedelta(seconds=7)
    harness.live(seconds=30)

    assert states_of(harness.attempts("cancel")) == ["canceled"]
    assert harness.runs("cancel")[0].reason == "nothing to do"
    assert harness.finished("cancel") == ["canceled"]
    assert (harness.runs("fatal")[0].state, len(harness.attempts("fatal"))) == ("dlq", 1)
    assert states_of(harness.attempts("later")) == ["failed", "success"]
    assert states_of(harness.attempts("snooze")) == ["snoozed"] * 3 + ["success"]
    assert harness.finished("snooze") == ["completed"], "a snooze uses up no retry"


@pytest.mark.req("JOB-4")
def test_a_stored_name_that_is_not_registered_is_unresolved_and_never_imported(
    harness: Harness,
) -> None:
    Job("job", "* * * * *", retry=Retry(0)).task(succeed)
    harness.sync()
    Task.objects.update(function="os.getcwd")
    harness.live(seconds=31)

    (attempt,) = harness.attempts("job")
    assert (attempt.state, attempt.error_type) == ("failed", "Unresolved")
    assert attempt.error == "no code registers the function 'os.getcwd'"


@pytest.mark.req("EXE-5")
def test_an_occurrence_past_its_execution_timeout_is_stale_and_its_runs_are_canceled(
    harness: Harness,
) -> None:
    job = Job("slow", "* * * * *", execution_timeout="40s", mode="parallel")
    job.task(name="a")(succeed)
    job.task(name="b")(succeed)
    harness.sync()
    harness.pass_time(seconds=30)
    harness.tick()
    harness.crash_worker()
    harness.pass_time(seconds=39)
    harness.tick(sweeping=True)
    assert harness.occurrences("slow")[0].state == "running"
    harness.pass_time(seconds=1)
    harness.tick(sweeping=True)

    stale = harness.occurrences("slow")[0]
    assert stale.report is not None
    assert (stale.state, stale.report["outcome"]) == ("failed_stale", "failed_stale")
    assert {run.state for run in harness.runs("slow")[:2]} == {"canceled"}
    assert harness.attempts("slow")[0].state in {"canceled", "lost"}


def idle(ctx: Context) -> None: ...


@pytest.mark.req("EXE-2")
@pytest.mark.req("EXE-10")
@pytest.mark.parametrize("how", ["operator", "execution timeout"])
def test_clean_up_runs_after_a_cancel_and_a_timeout(harness: Harness, how: str) -> None:
    done: list[str] = []

    def clean_up(ctx: Context) -> None:
        done.append(ctx.task)

    job = Job("job", "0 * * * *", execution_timeout="10m")
    job.task(name="work")(idle)
    job.task(name="rest")(idle)
    job.task(name="close", failure_strategy="continue")(clean_up)
    at_the_hour(harness)
    harness.crash_worker()
    if how == "operator":
        cancel_now(occurrences=[harness.occurrences("job")[0].id], reason=Reason.OPERATOR, now=harness.now)
    else:
        TaskRun.objects.filter(state="running").update(lease_until=harness.now + timedelta(hours=1))
        harness.pass_time(minutes=10)
        harness.tick()
    row = harness.occurrences("job")[0]
    outcome = "canceled" if how == "operator" else "failed_stale"
    assert (row.state, row.ending, row.reason) == ("running", outcome, how)
    assert [run.state for run in harness.runs("job")] == ["canceled", "canceled", "scheduled"]
    harness.work()
    row.refresh_from_db()
    assert (row.state, row.reason, done) == (outcome, how, ["close"])
    assert row.report is not None
    assert [task["status"] for task in row.report["tasks"]] == ["canceled", "canceled", "success"]
    assert not row.holds_slot


@pytest.mark.req("EXE-10")
@pytest.mark.parametrize("how", ["cancel again", "timeout"])
def test_clean_up_that_does_not_end_is_ended_as_well(harness: Harness, how: str) -> None:
    job = Job("job", "0 * * * *", execution_timeout="10m")
    job.task(name="work")(idle)
    job.task(name="close", failure_strategy="continue")(idle)
    at_the_hour(harness)
    harness.crash_worker()
    row = harness.occurrences("job")[0]
    assert cancel_now(occurrences=[row.id], reason=Reason.OPERATOR, now=harness.now) == 1
    harness.lose_messages()
    if how == "timeout":
        harness.pass_time(minutes=10)
        harness.tick()
    else:
        cancel_now(occurrences=[row.id], reason=Reason.OPERATOR, now=harness.now)
    row.refresh_from_db()
    assert row.state == "canceled"
    assert {run.state for run in harness.runs("job")} == {"canceled"}


@pytest.mark.req("EXE-10")
@pytest.mark.parametrize("strategies", [("continue", "continue"), ("fail_fast", "fail_fast")])
def test_a_cancel_without_clean_up_ends_at_once(harness: Harness, strategies: tuple[str, str]) -> None:
    job = Job("job", "0 * * * *", failure_strategy=strategies[0])
    for number, strategy in enumerate(strategies):
        job.task(name=f"step-{number}", failure_strategy=strategy)(idle)
    at_the_hour(harness)
    harness.crash_worker()
    row = harness.occurrences("job")[0]
    cancel_now(occurrences=[row.id], reason=Reason.OPERATOR, now=harness.now)
    row.refresh_from_db()
    assert row.state == "canceled"
