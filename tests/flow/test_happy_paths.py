"""From the decorator to a settled occurrence: sync, plan, fire, send, claim, attempt, settle."""

from datetime import UTC, datetime, timedelta

import pytest

from punctual import Context, Job, Retry, scheduled
from punctual.jobs.ids import attempt_id, occurrence_id
from punctual.occurrences.models import Occurrence
from tests.harness import Harness, hook_into, states_of


@pytest.mark.req("JOB-3")
def test_one_decorator_is_enough_for_a_run(harness: Harness) -> None:
    seen = []

    @scheduled("* * * * *")
    def minutely(ctx: Context) -> None:
        seen.append(ctx.scheduled_for)

    harness.sync()
    harness.live(seconds=95)

    minutes = [datetime(2026, 1, 5, 12, minute, tzinfo=UTC) for minute in (1, 2)]
    assert seen == minutes
    assert harness.finished("minutely") == ["completed", "completed"]
    assert states_of(harness.attempts("minutely")) == ["success", "success"]


@pytest.mark.req("OCC-1")
def test_rows_carry_the_ids_any_machine_would_compute(harness: Harness) -> None:
    @scheduled("* * * * *")
    def minutely(ctx: Context) -> None: ...

    harness.sync()
    harness.live(seconds=31)

    (occurrence,) = [row for row in harness.occurrences("minutely") if row.finished_at]
    assert occurrence.id == occurrence_id(occurrence.job_id, datetime(2026, 1, 5, 12, 1, tzinfo=UTC))
    (attempt,) = harness.attempts("minutely")
    assert attempt.id == attempt_id(attempt.run_id, 0)


@pytest.mark.req("OCC-7")
def test_a_message_is_named_after_the_attempt_it_starts(harness: Harness) -> None:
    @scheduled("* * * * *")
    def minutely(ctx: Context) -> None: ...

    harness.sync()
    harness.live(seconds=31)

    (attempt,) = harness.attempts("minutely")
    assert [id_ for id_, _ in harness.received] == [str(attempt.id)]


def test_the_next_occurrence_is_always_a_row(harness: Harness) -> None:
    @scheduled("0 9 1 1 *")
    def yearly(ctx: Context) -> None: ...

    harness.sync()
    harness.tick()

    (row,) = harness.occurrences("yearly")
    assert (row.state, row.scheduled_for) == ("pending", datetime(2027, 1, 1, 9, tzinfo=UTC))


@pytest.mark.req("EXE-1")
def test_sequential_steps_run_in_order_one_at_a_time(harness: Harness) -> None:
    report = Job("report", "* * * * *")
    order = []

    def step(ctx: Context) -> None:
        order.append(ctx.task)

    for name in ("collect", "render", "send"):
        report.task(name=name)(step)

    harness.sync()
    harness.pass_time(seconds=30)
    harness.tick()
    assert [run.available_at is not None for run in harness.runs("report")] == [True, False, False]
    harness.work()

    assert order == ["collect", "render", "send"]
    assert harness.finished("report") == ["completed"]


@pytest.mark.req("EXE-1")
def test_parallel_steps_go_out_at_once_and_settle_without_the_chord(harness: Harness) -> None:
    etl = Job("etl", "* * * * *", mode="parallel")

    def step(ctx: Context) -> None: ...

    for name in ("a", "b", "c"):
        etl.task(name=name)(step)

    harness.sync()
    harness.pass_time(seconds=30)
    harness.tick()
    assert all(run.dispatched_at == harness.now for run in harness.runs("etl"))
    harness.work()

    assert states_of(harness.runs("etl")) == ["success"] * 3
    assert harness.finished("etl") == ["completed"]


def test_async_functions_are_awaited(harness: Harness) -> None:
    seen = []

    @scheduled("* * * * *")
    async def fetch(ctx: Context) -> None:
        seen.append(ctx.job)

    harness.sync()
    harness.live(seconds=31)

    assert seen == ["fetch"]
    assert harness.finished("fetch") == ["completed"]


@pytest.mark.req("EXE-4")
def test_a_flaky_step_waits_as_a_row_and_then_succeeds(harness: Harness) -> None:
    etl = Job("etl", "0 * * * *", mode="parallel", retry=Retry(3, "10s", backoff=2, jitter="0s"))

    @etl.task
    def steady(ctx: Context) -> None: ...

    @etl.task
    def flaky(ctx: Context) -> None:
        if ctx.attempt < 2:
            raise ConnectionError("no answer")

    harness.now = datetime(2026, 1, 5, 12, 59, 59, tzinfo=UTC)
    harness.sync()
    harness.live(seconds=1)
    run = harness.runs("etl")[1]
    assert (run.state, run.available_at) == ("retry", harness.now + timedelta(seconds=10))
    harness.live(seconds=9)
    assert len(harness.attempts("etl")) == 2, "the wait is not over"
    harness.live(seconds=1)
    assert harness.runs("etl")[1].available_at == harness.now + timedelta(seconds=20)
    harness.live(seconds=20)

    assert states_of(harness.attempts("etl")) == ["success", "failed", "failed", "success"]
    assert harness.finished("etl") == ["completed"]


@pytest.mark.req("EXE-8")
@pytest.mark.req("JOB-9")
def test_on_complete_gets_the_stored_report(harness: Harness) -> None:
    job = Job("job", "* * * * *", retry=Retry(0))
    reports: list[dict[str, object]] = []

    @job.task
    def good(ctx: Context) -> None: ...

    @job.task(failure_strategy="continue")
    def bad(ctx: Context) -> None:
        raise ValueError("nope")

    @job.on_complete
    def broken_hook(report: object) -> None:
        raise RuntimeError("the hook is broken")

    job.on_complete(hook_into(reports))
    harness.sync()
    harness.live(seconds=31)

    (row,) = Occurrence.objects.filter(finished_at__isnull=False)
    assert row.report is not None
    assert reports == [row.report]
    assert row.report["outcome"] == "completed_with_errors"
    assert [(task["task"], task["status"], task["attempts_made"]) for task in row.report["tasks"]] == [
        ("good", "success", 1),
        ("bad", "dlq", 1),
    ]
    assert row.report["tasks"][1]["error"] == "ValueError: nope"
    assert row.finalized_at is not None
