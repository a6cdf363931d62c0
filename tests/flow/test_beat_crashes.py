"""A beat that is killed at any step of a tick leaves the same ledger in the end.

The tick under test dies before its k-th SQL statement, or before or after its k-th command to the broker, for
every k. Another beat ticks at the same time and later, and workers work; the ledger must end as it does
without a crash. Each k starts from the same rows: a savepoint restores them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery import current_app
from django.db import connection, transaction

from punctual import Context, Job, Retry
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import report
from punctual.execution.worker.claim import report_of_claim
from punctual.jobs import control
from punctual.jobs.declaration.registry import registry
from punctual.occurrences.models import Attempt, Occurrence, Pool, TaskRun
from tests.flow.faults import dying_at
from tests.harness import Harness, at_the_hour

Story = Callable[[Harness], None]
Ledger = dict[str, Any]
FEWEST_STEPS = 3  # of a tick with work to do: fewer would mean that the faults do not reach it
MOST_STEPS = 400

effects: list[tuple[str, str, int]] = []


def step(ctx: Context) -> None:
    effects.append((ctx.job, ctx.task, ctx.attempt))


def just_before_the_hour(harness: Harness) -> None:
    harness.start_at(harness.now.replace(minute=59, second=59))
    harness.tick()
    harness.pass_time(seconds=1)


def an_active_one_and_another_due(harness: Harness) -> None:
    """The first of two hours was fired, and no worker has claimed it yet."""
    at_the_hour(harness)
    harness.pass_time(minutes=59, seconds=30)
    harness.tick()
    harness.pass_time(seconds=30)


# -- stories: everything up to the tick that will die ----------------------------------------------


def first_plan(harness: Harness) -> None:
    Job("job", "*/10 * * * * *", overlap="allow").task(step)
    harness.sync()


def simple(harness: Harness) -> None:
    Job("job", "0 * * * *").task(step)
    just_before_the_hour(harness)


def fan_out(harness: Harness) -> None:
    wide = Job("wide", "0 * * * *", mode="parallel")
    line = Job("line", "0 * * * *")
    for name in ("a", "b", "c"):
        wide.task(name=name)(step)
        line.task(name=name)(step)
    just_before_the_hour(harness)


def overlap(policy: str) -> Story:
    def story(harness: Harness) -> None:
        Job("job", "0 * * * *", overlap=policy).task(step)
        an_active_one_and_another_due(harness)

    story.__name__ = policy
    return story


def retry_due(harness: Harness) -> None:
    Job("job", "0 * * * *", retry=Retry(2, "10s", jitter="0s")).task(step)
    at_the_hour(harness)
    (item,) = harness.crash_worker()
    failed = Result(Ending.FAILED, error_type="ValueError", error="no")
    report([report_of_claim(item, failed)], now=harness.now)
    harness.pass_time(seconds=10)


def late(strategy: str) -> Story:
    def story(harness: Harness) -> None:
        Job("job", "*/10 * * * *", overlap="queue", recovery=strategy).task(step)
        harness.sync()
        harness.tick()
        harness.pass_time(minutes=65)

    story.__name__ = strategy
    return story


def pool_line(harness: Harness) -> None:
    Pool.objects.create(name="small", size=1)
    for number in range(3):
        Job(f"job-{number}", "0 * * * *", pool="small", priority=number).task(step)
    just_before_the_hour(harness)


def worker_lost(harness: Harness) -> None:
    Job("job", "0 * * * *", retry=Retry(2, "1s")).task(step)
    at_the_hour(harness)
    harness.crash_worker()
    harness.pass_time(seconds=31)


def stale(harness: Harness) -> None:
    Job("job", "0 * * * *", overlap="queue", execution_timeout="10s").task(step)
    an_active_one_and_another_due(harness)
    harness.tick()
    harness.crash_worker()
    harness.pass_time(seconds=11)


def paused(harness: Harness) -> None:
    Job("job", "0 * * * *").task(step)
    just_before_the_hour(harness)
    control.pause("job")


def edited(harness: Harness) -> None:
    Job("job", "0 * * * *").task(step)
    harness.sync()
    harness.tick()
    edit = "UPDATE punctual_job SET schedule = '*/20 * * * * *', updated_at = %s"
    with connection.cursor() as cursor:
        cursor.execute(edit, [harness.pass_time(seconds=1)])


STORIES = [
    first_plan,
    simple,
    fan_out,
    *map(overlap, ("skip", "queue", "queue_latest", "replace", "allow")),
    retry_due,
    *map(late, ("execute_all", "execute_last", "mark_as_missed")),
    pool_line,
    worker_lost,
    stale,
    paused,
    edited,
]


# -- the comparison -----------------------------------------------------------------------------------


@pytest.fixture
def harness(db: None) -> Iterator[Harness]:
    harness = Harness()
    harness.lose_messages()
    with registry.isolated():
        yield harness
    harness.lose_messages()


def ledger() -> Ledger:
    """Every row that records what happened, without its times."""
    occurrences = Occurrence.objects.order_by("job__name", "scheduled_for", "id")
    runs = TaskRun.objects.order_by("occurrence__job__name", "occurrence__scheduled_for", "position")
    attempts = Attempt.objects.order_by("run__occurrence__job__name", "run_id", "number")
    return {
        "occurrences": list(occurrences.values_list("id", "run_at", "state", "cause", "reason")),
        "runs": list(runs.values_list("id", "state", "reason", "attempts_made")),
        "attempts": list(attempts.values_list("id", "number", "state")),
        "effects": sorted(effects),
    }


def run_other_processes(harness: Harness) -> None:
    """Tick as another beat at the same time, then tick and work until every grace period has passed."""
    harness.tick()
    harness.work()
    for seconds in (6, 31, 6):
        harness.pass_time(seconds=seconds)
        harness.tick()
        harness.work()


def ledger_after_crash(harness: Harness, fatal: int) -> tuple[bool, Ledger]:
    """Die at that step, let the other processes continue, read the ledger, and roll everything back."""
    now, queued = harness.now, messages()
    before = transaction.savepoint()
    effects.clear()
    with dying_at(fatal) as steps:
        harness.tick()
    # Blocks without their own savepoint mark the outermost one for rollback, which is the test's.
    transaction.set_rollback(False)
    run_other_processes(harness)
    found = ledger()
    transaction.savepoint_rollback(before)
    harness.now = now
    harness.lose_messages()
    restore_messages(queued)
    return steps.crashed, found


def messages() -> list[bytes]:
    with broker() as client:
        return list(client.lrange("default", 0, -1))


def restore_messages(queued: list[bytes]) -> None:
    if queued:
        with broker() as client:
            client.rpush("default", *queued)


@contextmanager
def broker() -> Iterator[Any]:
    with current_app.connection_for_read() as connected:
        channel: Any = connected.default_channel
        yield channel.client


@pytest.mark.req("OCC-2")
@pytest.mark.req("OCC-5")
@pytest.mark.req("OCC-7")
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_beat_that_dies_at_any_step_of_a_tick_changes_nothing_in_the_end(
    harness: Harness, story: Story
) -> None:
    story(harness)
    _, undisturbed = ledger_after_crash(harness, fatal=0)
    assert undisturbed["occurrences"]
    deaths = 0
    while deaths < MOST_STEPS:
        crashed, found = ledger_after_crash(harness, fatal=deaths + 1)
        assert found == undisturbed, f"after a death at step {deaths + 1}"
        if not crashed:
            break
        deaths += 1
    assert FEWEST_STEPS <= deaths < MOST_STEPS
