"""Short runs that are due at once share messages; the ledger records each of them as usual."""

from collections import Counter
from typing import Any

import pytest

from punctual import Context, Job
from punctual.execution.broker.bundling import MIN_CALLS
from punctual.execution.models import Pace
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from tests.harness import Harness

JOBS = 40


def noop(ctx: Context) -> None: ...


def declare(call: Any, **options: Any) -> None:
    for number in range(JOBS):
        Job(f"job {number}", "* * * * *", **options).task(name="step")(call)


def messages(harness: Harness) -> list[int]:
    """The number of runs in each message since the last call."""
    sizes = [len(args[0]) for _, args in harness.received]
    harness.received.clear()
    return sizes


def minutes(harness: Harness, count: int) -> None:
    harness.live(step=60, minutes=count)


def make_tasks_short(harness: Harness) -> None:
    """Run every task often enough to count as short."""
    harness.now = harness.now.replace(second=0)
    harness.sync()
    harness.tick()
    minutes(harness, MIN_CALLS)
    Pace.objects.update(p95=0.001)  # a busy machine may have interrupted a call for longer


def test_first_runs_are_sent_alone_and_short_ones_share_messages_afterwards(harness: Harness) -> None:
    declare(noop)
    make_tasks_short(harness)
    assert set(messages(harness)) == {1}
    minutes(harness, 1)
    assert messages(harness) == [5] * 8, "forty runs over eight slots"
    assert Pace.objects.count() == JOBS
    assert Counter(Occurrence.objects.values_list("state", flat=True)) == {
        "completed": JOBS * (MIN_CALLS + 1),
        "pending": JOBS,
    }
    assert set(Attempt.objects.values_list("state", "number")) == {("success", 0)}
    assert set(TaskRun.objects.values_list("attempts_made", flat=True)) == {1}


@pytest.mark.parametrize("reason", ["opted out", "transactional"])
def test_runs_that_must_not_share_a_message_are_sent_alone(harness: Harness, reason: str) -> None:
    for number in range(JOBS):
        job = Job(f"job {number}", "* * * * *")
        if reason == "opted out":
            job.task(name="step", bundle=False)(noop)
        else:
            job.task(name="step", transactional=True)(noop)
    make_tasks_short(harness)
    minutes(harness, 2)
    assert set(messages(harness)) == {1}


def test_a_task_that_becomes_slow_delays_no_other_run_and_is_sent_alone_afterwards(harness: Harness) -> None:
    slow: list[str] = []

    def call(ctx: Context) -> None:
        if ctx.job in slow:
            harness.pass_time(seconds=10)

    declare(call)
    make_tasks_short(harness)
    messages(harness)
    slow.append("job 7")
    harness.pass_time(minutes=1)
    harness.tick()
    harness.work()
    sizes = messages(harness)
    assert sum(sizes) > JOBS, "the runs after the slow one were sent again"
    assert Counter(TaskRun.objects.values_list("state", "attempts_made")) == {
        ("success", 1): JOBS * (MIN_CALLS + 1)
    }


def test_a_lost_worker_with_a_bundle_uses_no_retry_of_its_runs(harness: Harness) -> None:
    """It is unknown which runs had started: each of them is recorded, and sent alone next."""
    declare(noop, retry={"max_retries": 0})
    make_tasks_short(harness)
    harness.pass_time(minutes=1)
    harness.tick()
    crashed = harness.crash_worker()
    assert len(crashed) == 5
    harness.work()
    messages(harness)
    harness.pass_time(seconds=31)
    harness.tick()
    harness.work()
    assert messages(harness) == [1] * 5
    runs = TaskRun.objects.filter(id__in=[item.run.id for item in crashed])
    assert set(runs.values_list("state", "attempts_made", "snoozes")) == {("success", 2, 1)}
    attempts = Attempt.objects.filter(run__in=runs)
    assert Counter(attempts.values_list("state", "number")) == {("lost", 0): 5, ("success", 1): 5}
