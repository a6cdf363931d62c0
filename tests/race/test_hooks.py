"""Workers call the hooks of the same occurrences at the same time."""

from collections import Counter
from functools import partial
from threading import Lock
from typing import Any
from uuid import UUID

import pytest

from punctual import Context, Job
from punctual.conf import current_settings
from punctual.execution.ending import hook_calls
from punctual.execution.ending.settle import settle
from punctual.execution.models import HookCall
from punctual.execution.worker.work import settle_now
from punctual.occurrences.models import Occurrence, TaskRun
from tests.harness import Harness, at_the_hour
from tests.race.threads import at_once, before_commit

pytestmark = pytest.mark.req("JOB-9")


def noop(ctx: Context) -> None: ...


class Called:
    """Counts the calls of a hook, and how many ran at once."""

    def __init__(self) -> None:
        self.lock, self.running, self.most = Lock(), 0, 0
        self.calls: Counter[str] = Counter()

    def hook(self, argument: Any) -> None:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
            self.calls[str(getattr(argument, "id", None) or argument["occurrence"])] += 1
        Occurrence.objects.count()  # lets other threads run
        with self.lock:
            self.running -= 1


def declare(name: str, called: Called, event: str) -> None:
    job = Job(name, "0 * * * *", mode="parallel")
    for number in range(3):
        job.task(name=f"{number}")(noop)

    def hook(argument: Any) -> None:
        called.hook(argument)

    hook.__qualname__ = f"declare.<locals>.{name}"
    getattr(job, event)(hook)


@pytest.mark.parametrize("event", ["on_start", "on_complete"])
def test_of_eight_workers_one_calls_a_hook(harness: Harness, event: str) -> None:
    called = Called()
    declare("job", called, event)
    at_the_hour(harness)
    if event == "on_complete":
        while (message := harness.take()) is not None:
            TaskRun.objects.filter(id__in=message[1]).update(state="success", finished_at=harness.now)
    (row,) = [item for item in harness.occurrences("job") if item.state != "pending"]
    at_once(*[partial(settle_now, [row.id], clock=harness.clock)] * 8)

    assert list(called.calls.values()) == [1]
    assert HookCall.objects.get().tries == 1
    if event == "on_start":
        assert TaskRun.objects.filter(available_at=harness.now).count() == 3
    else:
        assert Occurrence.objects.get(id=row.id).finalized_at is not None


def test_no_more_hooks_run_at_once_than_there_are_slots(harness: Harness) -> None:
    called = Called()
    for number in range(8):
        declare(f"job-{number}", called, "on_start")
    at_the_hour(harness)
    ids = list(Occurrence.objects.filter(state="dispatched").values_list("id", flat=True))
    assert len(ids) == 8
    at_once(*(partial(settle_now, [id_], clock=harness.clock) for id_ in ids))
    assert called.most <= 2
    harness.live(seconds=35)
    assert (sum(called.calls.values()), max(called.calls.values())) == (8, 1)
    assert [harness.finished(f"job-{number}") for number in range(8)] == [["completed"]] * 8


@pytest.mark.postgres
def test_a_process_that_settles_meanwhile_does_not_keep_the_tasks_from_being_released(
    harness: Harness,
) -> None:
    """It has seen that the hooks are not over, and holds the occurrence when they end."""
    declare("job", Called(), "on_start")
    at_the_hour(harness)
    (row,) = Occurrence.objects.filter(state="dispatched")

    def settle_early() -> int:
        return len(settle([row.id], now=harness.now).released)

    released, _ = before_commit(settle_early, partial(settle_now, [row.id], clock=harness.clock))
    assert released == 0
    assert TaskRun.objects.filter(available_at=harness.now).count() == 3


@pytest.mark.postgres
def test_the_second_of_two_claims_sees_the_first_one_s_lease(harness: Harness) -> None:
    """Both passed the read, and choose different slots: the guard on the row decides."""
    declare("job", Called(), "on_start")
    at_the_hour(harness)
    (row,) = Occurrence.objects.filter(state="dispatched")
    hook_calls.register([row], now=harness.now)
    (call,) = HookCall.objects.all()

    def claim(*, hung: bool) -> UUID | None:
        settings = current_settings()
        return hook_calls.claim(call, hung=hung, worker="w", now=harness.now, settings=settings)

    first, second = before_commit(partial(claim, hung=False), partial(claim, hung=True))
    assert first is not None
    assert second is None
    assert HookCall.objects.get().tries == 1


@pytest.mark.postgres
def test_a_call_that_another_session_holds_delays_no_other_call(harness: Harness) -> None:
    called = Called()
    for number in range(4):
        declare(f"job-{number}", called, "on_start")
    at_the_hour(harness)
    harness.lose_messages()
    rows = list(Occurrence.objects.filter(state="dispatched"))
    hook_calls.register(rows, now=harness.now)
    first = HookCall.objects.order_by("created_at", "id")[0]

    def hold() -> HookCall:
        return HookCall.objects.select_for_update().get(id=first.id)

    def go_on() -> int:
        for _ in range(3):
            harness.pass_time(seconds=2)
            harness.tick()
            harness.work()
        return sum(called.calls.values())

    _, calls = before_commit(hold, go_on)
    assert calls == 3
    harness.live(seconds=35)
    assert sum(called.calls.values()) == 4
