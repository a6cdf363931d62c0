"""Many short runs due at once share messages; what the ledger says of each does not change."""

from collections import Counter
from typing import Any

import pytest

from execution.models import Pace
from execution.pace import ENOUGH
from jobs import Context, Job
from occurrences.models import Attempt, Occurrence, TaskRun
from tests.harness import Harness

JOBS = 40


def noop(ctx: Context) -> None: ...


def declare(call: Any, **options: Any) -> None:
    for number in range(JOBS):
        Job(f"job {number}", "* * * * *", **options).task(name="step")(call)


def messages(harness: Harness) -> list[int]:
    """How many runs each message since the last call carried."""
    sizes = [len(args[0]) for _, args in harness.received]
    harness.received.clear()
    return sizes


def minutes(harness: Harness, count: int) -> None:
    harness.live(step=60, minutes=count)


def prove(harness: Harness) -> None:
    """Let every task be called often enough."""
    harness.now = harness.now.replace(second=0)
    harness.sync()
    harness.tick()
    minutes(harness, ENOUGH)


def test_first_runs_go_alone_and_short_ones_share_messages_then(harness: Harness) -> None:
    declare(noop)
    prove(harness)
    assert set(messages(harness)) == {1}
    minutes(harness, 1)
    assert messages(harness) == [5] * 8, "forty runs over eight slots"
    assert Pace.objects.count() == JOBS
    assert Counter(Occurrence.objects.values_list("state", flat=True)) == {
        "completed": JOBS * (ENOUGH + 1),
        "pending": JOBS,
    }
    assert set(Attempt.objects.values_list("state", "number")) == {("success", 0)}
    assert set(TaskRun.objects.values_list("attempts_made", flat=True)) == {1}


@pytest.mark.parametrize("reason", ["opted out", "transactional"])
def test_what_must_not_share_a_message_does_not(harness: Harness, reason: str) -> None:
    for number in range(JOBS):
        job = Job(f"job {number}", "* * * * *")
        if reason == "opted out":
            job.task(name="step", bundle=False)(noop)
        else:
            job.task(name="step", transactional=True)(noop)
    prove(harness)
    minutes(harness, 2)
    assert set(messages(harness)) == {1}


def test_a_task_that_is_suddenly_slow_delays_nobody_and_goes_alone_from_then_on(harness: Harness) -> None:
    slow: list[str] = []

    def call(ctx: Context) -> None:
        if ctx.job in slow:
            harness.pass_time(seconds=10)

    declare(call)
    prove(harness)
    messages(harness)
    slow.append("job 7")
    harness.pass_time(minutes=1)
    harness.tick()
    harness.work()
    sizes = messages(harness)
    assert sum(sizes) > JOBS, "those behind the slow one were sent again"
    assert Counter(TaskRun.objects.values_list("state", "attempts_made")) == {
        ("success", 1): JOBS * (ENOUGH + 1)
    }


def test_a_worker_that_is_gone_with_its_bundle_costs_nobody_a_retry(harness: Harness) -> None:
    """Which of them had begun, nobody can tell any more: each is accounted for, and goes alone next."""
    declare(noop, retry={"max_retries": 0})
    prove(harness)
    harness.pass_time(minutes=1)
    harness.tick()
    crashed = harness.crash_worker()
    assert len(crashed.claims) == 5
    harness.work()
    messages(harness)
    harness.pass_time(seconds=31)
    harness.tick()
    harness.work()
    assert messages(harness) == [1] * 5
    runs = TaskRun.objects.filter(id__in=[item.run.id for item in crashed.claims])
    assert set(runs.values_list("state", "attempts_made", "snoozes")) == {("success", 2, 1)}
    attempts = Attempt.objects.filter(run__in=runs)
    assert Counter(attempts.values_list("state", "number")) == {("lost", 0): 5, ("success", 1): 5}
