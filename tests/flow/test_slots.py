"""What waits holds no slot of its pool (LIM-4), and all pools together may have a limit (OCC-6)."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.test import override_settings

from punctual import Context, Job, Retry
from punctual.execution.ending.cancel import cancel_now
from punctual.execution.models import Process
from punctual.execution.supervision.presence import sign_in
from punctual.jobs.models import Job as Row
from punctual.occurrences.models import Occurrence, Pool, TaskRun
from tests.harness import Harness, at_the_hour


class UnluckyError(Exception): ...


def noop(ctx: Context) -> None: ...


def fail_always(ctx: Context) -> None:
    raise UnluckyError


def fail_first(ctx: Context) -> None:
    if ctx.attempt == 0:
        raise UnluckyError


def holders() -> list[str]:
    rows = Occurrence.objects.holding_slots().order_by("job__name")
    return list(rows.values_list("job__name", flat=True))


def only(harness: Harness, job: str) -> Occurrence:
    return harness.occurrences(job)[0]


@pytest.mark.req("LIM-4")
def test_while_three_wait_for_a_retry_their_pool_of_three_runs_others(harness: Harness) -> None:
    Pool.objects.create(name="small", size=3)
    for number in range(3):
        Job(f"poison-{number}", "0 * * * *", pool="small", retry=Retry(3, "2h")).task(fail_first)
    Job("healthy", "*/10 * * * * *", pool="small").task(noop)
    at_the_hour(harness)
    harness.work()
    assert holders() == []
    harness.live(step=10, minutes=3)

    assert harness.finished("healthy") == ["completed"] * 19
    assert [only(harness, f"poison-{number}").state for number in range(3)] == ["running"] * 3


@pytest.mark.req("LIM-4")
def test_a_pool_of_one_with_a_poison_job_lets_a_healthy_one_run_every_minute(harness: Harness) -> None:
    Pool.objects.create(name="one", size=1)
    Job("poison", "0 * * * *", pool="one", retry=Retry(40, "1m", jitter="0s"), execution_timeout="2h").task(
        fail_always
    )
    Job("healthy", "* * * * *", pool="one").task(noop)
    at_the_hour(harness)
    harness.live(step=20, minutes=15)

    assert harness.finished("healthy") == ["completed"] * 16
    assert len(harness.attempts("poison")) >= 10


@pytest.mark.req("LIM-4")
def test_a_due_retry_waits_for_room_ahead_of_newcomers_and_its_wait_has_no_timeout(harness: Harness) -> None:
    Pool.objects.create(name="one", size=1)
    Job("first", "0 * * * *", pool="one", retry=Retry(1, "30s", jitter="0s"), execution_timeout="2m").task(
        fail_first
    )
    Job("second", "30 0 * * * *", pool="one", priority=-1).task(noop)
    Job("newcomer", "0 1 * * * *", pool="one", priority=9).task(noop)
    at_the_hour(harness)
    harness.work()
    harness.pass_time(seconds=29)
    harness.tick()
    harness.pass_time(seconds=1)
    Pool.objects.update(size=0)  # the retry comes due, and there is no room
    harness.tick()
    harness.pass_time(minutes=10)
    harness.tick()
    first = only(harness, "first")
    assert (first.state, first.holds_slot, first.slot_wanted_at is not None) == ("running", False, True)
    assert harness.runs("first")[0].state == "retry"
    assert only(harness, "newcomer").state == "queued"
    Pool.objects.update(size=1)
    harness.tick()
    assert holders() == ["first"], "ahead of an occurrence with a higher priority that has not started"
    first.refresh_from_db()
    assert first.started_at is not None
    assert first.deadline_at == first.started_at + timedelta(minutes=12)
    harness.work()
    assert [only(harness, name).state for name in ("first", "second", "newcomer")] == ["completed"] * 3


@pytest.mark.req("LIM-4")
def test_the_slot_of_a_parallel_job_is_free_once_every_open_run_waits(harness: Harness) -> None:
    job = Job("job", "0 * * * *", mode="parallel", retry=Retry(1, "10m"))
    job.task(name="fails")(fail_first)
    job.task(name="works")(noop)
    at_the_hour(harness)
    first = harness.step()
    assert first
    assert holders() == ["job"], "the other run needs the slot"
    harness.work()
    assert holders() == []
    harness.live(step=60, minutes=12)
    assert only(harness, "job").state == "completed"
    assert holders() == []


@pytest.mark.req("LIM-4")
def test_a_successor_released_without_a_slot_waits_for_one(harness: Harness) -> None:
    Pool.objects.create(name="default", size=1)
    job = Job("job", "0 * * * *", retry=Retry(1, "1h"))
    job.task(name="fails")(fail_first)
    job.task(name="clean-up", failure_strategy="continue")(noop)
    Job("other", "0 * * * *", priority=-1).task(noop)
    at_the_hour(harness)
    harness.step()
    assert holders() == ["other"]
    fails, clean_up = harness.runs("job")
    cancel_now(runs=[fails.id], reason="operator", now=harness.now)
    clean_up.refresh_from_db()
    assert clean_up.parked_at is not None
    assert holders() == ["other"]
    harness.work()
    assert only(harness, "job").state == "completed"
    assert only(harness, "other").state == "completed"


@pytest.mark.req("LIM-4")
def test_a_worker_that_dies_before_it_gives_the_slot_back_leaves_that_to_the_sweeper(
    harness: Harness,
) -> None:
    job = Job("job", "0 * * * *", mode="parallel", retry=Retry(1, "10m"))
    job.task(name="fails")(fail_first)
    job.task(name="works")(noop)
    at_the_hour(harness)
    harness.work()
    Occurrence.objects.filter(job__name="job", state="running").update(
        holds_slot=True
    )  # as before its last step
    harness.tick()
    assert holders() == []


@pytest.mark.req("LIM-4")
def test_what_was_sent_to_a_queue_without_a_worker_gives_its_slot_back(harness: Harness) -> None:
    Pool.objects.create(name="small", size=2)
    for number in range(2):
        Job(f"unserved-{number}", "0 * * * *", pool="small", queue="reports").task(noop)
    Job("healthy", "5/10 * * * * *", pool="small").task(noop)
    sign_in("worker", Process.Kind.WORKER, now=harness.now, queues=["default"])
    at_the_hour(harness)
    assert holders() == ["unserved-0", "unserved-1"]
    live_with(harness, ["default"], seconds=60)
    unserved = only(harness, "unserved-0")
    assert (unserved.state, unserved.holds_slot) == ("dispatched", False), "it keeps its job"
    assert "skipped" in harness.finished("healthy"), "until lost_after the pool was full"
    assert harness.finished("healthy")[-2:] == ["completed"] * 2
    assert harness.step("reports")
    assert harness.attempts("unserved-0") == [], "not claimed without a slot"
    Pool.objects.update(size=1)
    live_with(harness, ["default", "reports"], seconds=10)
    assert holders() == ["unserved-0"]
    while harness.step("reports"):
        pass
    assert [only(harness, f"unserved-{number}").state for number in range(2)] == ["completed"] * 2
    assert holders() == []


@pytest.mark.req("LIM-4")
def test_what_no_worker_claims_within_its_dispatch_timeout_is_stale(harness: Harness) -> None:
    Job("bounded", "0 * * * *", queue="reports", dispatch_timeout="2m").task(noop)
    Job("patient", "0 * * * *", queue="reports").task(noop)
    sign_in("worker", Process.Kind.WORKER, now=harness.now, queues=["default"])
    at_the_hour(harness)
    live_with(harness, ["default"], seconds=115)
    assert only(harness, "bounded").state == "dispatched"
    live_with(harness, ["default"], seconds=5)
    bounded = only(harness, "bounded")
    assert (bounded.state, bounded.reason) == ("failed_stale", "never claimed")
    assert [run.state for run in harness.runs("bounded")] == ["canceled"]
    assert only(harness, "patient").state == "dispatched"


def live_with(harness: Harness, queues: list[str], *, seconds: int) -> None:
    """Beats and one worker go on; the worker consumes these queues, but works off `default` only."""
    for _ in range(0, seconds, 5):
        harness.pass_time(seconds=5)
        sign_in("worker", Process.Kind.WORKER, now=harness.now, queues=queues)
        harness.tick()
        harness.work()


@pytest.mark.req("OCC-6")
@override_settings(PUNCTUAL={"max_active": 2})
def test_all_pools_together_never_exceed_max_active(harness: Harness) -> None:
    for number, priority in enumerate((0, 0, 5, 0, 3)):
        Job(f"job-{number}", "0 * * * *", pool=f"pool-{number}", priority=priority).task(noop)
    ticked = at_the_hour(harness)
    assert (ticked.fired, ticked.queued) == (2, 3)
    assert holders() == ["job-2", "job-4"]
    reasons = Occurrence.objects.waiting().values_list("reason", flat=True)
    assert set(reasons) == {"max_active"}
    held = []
    while harness.step():
        held.append(len(holders()))

    assert max(held) == 2
    assert [harness.finished(f"job-{number}") for number in range(5)] == [["completed"]] * 5


@pytest.mark.req("OCC-6")
@override_settings(PUNCTUAL={"max_active": 1})
def test_under_max_active_a_newcomer_does_not_overtake_another_pool_s_queue(harness: Harness) -> None:
    Job("slow", "0 * * * *", pool="a").task(noop)
    Job("waits", "10 0 * * * *", pool="b").task(noop)
    Job("newcomer", "20 0 * * * *", pool="c", priority=9).task(noop)
    at_the_hour(harness)
    for _ in range(2):
        harness.pass_time(seconds=10)
        harness.tick(sweeping=False)
    assert [only(harness, name).state for name in ("slow", "waits", "newcomer")] == [
        "dispatched",
        "queued",
        "queued",
    ]
    harness.work()
    assert [only(harness, name).state for name in ("slow", "waits", "newcomer")] == ["completed"] * 3


@pytest.mark.req("LIM-4")
@pytest.mark.req("OCC-6")
@pytest.mark.parametrize("seed", range(3))
def test_slots_are_never_exceeded_and_never_leaked(harness: Harness, seed: int) -> None:
    """Random failures, crashed workers, lost messages and cancellations in pools of two and three."""
    random = Random(seed)  # noqa: S311 - no secret

    def task(ctx: Context) -> None:
        if random.random() < 0.5:
            raise UnluckyError

    for name, size in SIZES.items():
        Pool.objects.create(name=name, size=size)
    for number in range(6):
        declare(number, random, task)
    harness.sync()
    with override_settings(PUNCTUAL={"max_active": MAX_ACTIVE}):
        for _ in range(40):
            harness.pass_time(seconds=random.choice([1, 2, 5]))
            harness.tick(sweeping=random.random() < 0.7)
            check_slots()
            for _ in range(random.randrange(6)):
                disturb(harness, random)
                check_slots()
        Row.objects.update(enabled=False)
        harness.live(step=5, minutes=3)
    assert not Occurrence.objects.active().exists()
    assert not Occurrence.objects.holding_slots().exists()
    assert not TaskRun.objects.filter(parked_at__isnull=False).exists()


SIZES, MAX_ACTIVE = {"two": 2, "three": 3}, 4


def declare(number: int, random: Random, task: Callable[[Context], None]) -> None:
    options: dict[str, Any] = {
        "pool": random.choice(list(SIZES)),
        "mode": random.choice(["parallel", "sequential"]),
        "overlap": random.choice(["allow", "queue", "skip"]),
        "retry": Retry(2, random.choice(["1s", "7s", "20s"])),
    }
    job = Job(f"job-{number}", random.choice(["*/20 * * * * *", "* * * * *"]), **options)
    for step in range(random.choice([1, 2, 3])):
        job.task(name=f"step-{step}", failure_strategy=random.choice(["continue", "fail_fast"]))(task)


def disturb(harness: Harness, random: Random) -> None:
    match random.randrange(12):
        case 0:
            harness.lose_messages()
        case 1:
            with suppress(LookupError):
                harness.crash_worker()
        case 2:
            some = Occurrence.objects.active().order_by("?").values_list("id", flat=True)[:1]
            cancel_now(occurrences=list(some), reason="operator", now=harness.now)
        case _:
            harness.step()


def check_slots() -> None:
    """No pool is exceeded, and whatever a worker may run belongs to an occurrence with a slot."""
    rows = list(Occurrence.objects.holding_slots().values_list("pool", flat=True))
    assert all(rows.count(name) <= size for name, size in SIZES.items())
    assert len(rows) <= MAX_ACTIVE
    moving = TaskRun.objects.moving().filter(occurrence__state__in=("dispatched", "running"))
    assert not moving.filter(occurrence__holds_slot=False).exists()
