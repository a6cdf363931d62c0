"""Several schedulers on one database: one of them runs a task, and a lost claim changes nothing."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from uuid import uuid4

import pytest
from django.db import connections

from punctual.jobs.ids import job_id
from punctual.occurrences import transitions
from punctual.occurrences.engines.contract import Closing
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, Reason
from punctual.polling.claims import Claim, Owner, start
from punctual.polling.eligibility import Start, StartReason
from punctual.polling.models import TaskState
from punctual.polling.outcomes import record
from punctual.polling.reconciliation import Reconciliation, reconcile
from punctual.polling.registrations import CheckedRegistration, Rule
from punctual.polling.scheduler_events import SchedulerEvent
from punctual.polling.snapshots import TaskSnapshot, read_tasks
from tests.polling.conftest import NOON
from tests.polling.world import LEASE, World

pytestmark = pytest.mark.req("POL-4")
OWNERS = 6


async def nothing() -> None: ...


def checked(name: str, cron: str = "* * * * *") -> CheckedRegistration:
    return CheckedRegistration(name, Rule(cron, timedelta(seconds=60)), nothing)


def at_once(step: object, count: int) -> list[object]:
    """Call a step in several threads at the same moment."""
    barrier = Barrier(count)

    def call(number: int) -> object:
        try:
            barrier.wait(timeout=30)
            return step(number)  # type: ignore[operator]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count)))


def snapshot_of(name: str) -> TaskSnapshot:
    (item,) = read_tasks([job_id(name)])
    assert isinstance(item, TaskSnapshot)
    return item


@pytest.mark.usefixtures("transactional_db")
def test_of_several_schedulers_with_the_same_decision_one_claims_the_run() -> None:
    reconcile([checked("a")], scheduler_id=uuid4(), zone="UTC", now=NOON)
    snapshot = snapshot_of("a")

    def claimed(number: int) -> Claim | None:
        owner, now = Owner(uuid4(), f"host/{number}"), NOON + number * timedelta(milliseconds=1)
        return start(snapshot, Start(StartReason.DUE, NOON), owner=owner, now=now, lease=LEASE)

    claims = at_once(claimed, OWNERS)
    assert sum(claim is not None for claim in claims) == 1
    assert Attempt.objects.count() == Occurrence.objects.count() == 1


@pytest.mark.usefixtures("transactional_db")
def test_a_decision_older_than_a_short_run_starts_nothing() -> None:
    """The run started and ended between the read and the claim of another scheduler."""
    reconcile([checked("a")], scheduler_id=uuid4(), zone="UTC", now=NOON)
    stale = snapshot_of("a")
    owner = Owner(uuid4(), "host/1")
    claim = start(stale, Start(StartReason.DUE, NOON), owner=owner, now=NOON, lease=LEASE)
    assert claim is not None
    assert record(claim, None, now=NOON)
    later = NOON + timedelta(seconds=1)
    assert start(stale, Start(StartReason.DUE, NOON), owner=owner, now=later, lease=LEASE) is None
    assert Attempt.objects.count() == 1


@pytest.mark.usefixtures("transactional_db")
def test_a_task_removed_after_the_decision_is_not_started() -> None:
    reconcile([checked("a")], scheduler_id=uuid4(), zone="UTC", now=NOON)
    stale = snapshot_of("a")
    reconcile([], scheduler_id=uuid4(), zone="UTC", now=NOON)
    owner = Owner(uuid4(), "host/1")
    assert start(stale, Start(StartReason.DUE, NOON), owner=owner, now=NOON, lease=LEASE) is None


@pytest.mark.req("POL-1")
@pytest.mark.usefixtures("transactional_db")
def test_concurrent_initializations_leave_one_complete_set() -> None:
    def adopted(number: int) -> Reconciliation:
        items = [checked("common"), checked(f"own-{number}")]
        return reconcile(items, scheduler_id=uuid4(), zone="UTC", now=NOON)

    fates = at_once(adopted, OWNERS)
    assert sum("common" in fate.new for fate in fates if isinstance(fate, Reconciliation)) == 1
    left = set(TaskState.objects.filter(job__removed_at=None).values_list("job__name", flat=True))
    assert len(left) == 2
    assert "common" in left


def test_two_schedulers_with_the_same_registrations_run_each_minute_once(world: World) -> None:
    first = world.process
    world.initialize(world.register("a"), world.register("b"))
    world.boot()
    world.initialize(world.register("a"), world.register("b"))
    for _ in range(5):
        for task in world.running:
            world.finish(task)
        world.advance(minutes=1)
    assert len(world.starts("a")) == len(world.starts("b")) == 6
    assert Attempt.objects.count() == Occurrence.objects.count() == 12
    assert first.engine.running_names | world.process.engine.running_names == {"a", "b"}


def test_a_lease_is_renewed_as_long_as_the_callback_runs(world: World) -> None:
    world.initialize(world.register("a", "0 12 * * *"))
    world.boot()
    world.initialize(world.register("a", "0 12 * * *"))
    world.advance(minutes=10)
    assert len(world.starts("a")) == 1
    assert TaskRun.objects.filter(lease_until__gt=world.now).count() == 1


@pytest.mark.req("POL-3")
def test_the_survivor_takes_over_what_a_dead_scheduler_was_running(world: World) -> None:
    doomed = world.process
    world.initialize(world.register("a", "0 12 * * *"))
    world.boot()
    world.initialize(world.register("a", "0 12 * * *"))
    world.do(doomed.die())
    world.calls.clear()
    world.advance(seconds=LEASE.total_seconds() + 1)
    assert world.running == ["a"]
    assert [row.state for row in Attempt.objects.order_by("number")] == ["lost", "running"]
    world.recorder.events.clear()  # the properties do not cover a crash of one of two schedulers


def test_a_callback_whose_claim_is_lost_is_canceled_and_records_nothing(world: World) -> None:
    world.initialize(world.register("a", "0 12 * * *"))
    run = TaskRun.objects.get()
    transitions.cancel([run.id], reason=Reason.OPERATOR, now=NOON)
    world.advance(minutes=1)
    assert world.process.engine.running_names == set()
    assert SchedulerEvent.CLAIM_LOST in world.signals
    assert TaskRun.objects.get().reason == "operator"
    world.recorder.events.clear()


def test_a_result_that_comes_after_the_claim_was_lost_changes_nothing(world: World) -> None:
    world.initialize(world.register("a", "0 12 * * *"))
    transitions.cancel([TaskRun.objects.get().id], reason=Reason.OPERATOR, now=NOON)
    world.finish("a")
    assert SchedulerEvent.CLAIM_LOST in world.signals
    assert SchedulerEvent.RUN_COMPLETED not in world.signals
    assert TaskState.objects.get().last_success_at is None
    world.recorder.events.clear()


def test_a_retry_that_an_operator_canceled_does_not_start(world: World) -> None:
    world.initialize(world.register("a", "0,5 12 * * *", delay=60))
    world.finish("a", ValueError("no"))
    run = TaskRun.objects.get()
    transitions.cancel([run.id], reason=Reason.OPERATOR, now=NOON)
    outcome = OccurrenceState.CANCELED
    closing = Closing(run.occurrence_id, outcome, reason="", finalized=True, report="{}")
    assert transitions.close([closing], now=NOON) == {run.occurrence_id: False}
    world.advance(minutes=3)
    assert SchedulerEvent.POLL_FAILED not in world.signals
    assert len(world.starts("a")) == 1
    world.advance(minutes=2)
    assert world.running == ["a"]


def test_a_manual_run_in_progress_delays_the_start(world: World) -> None:
    world.initialize(world.register("a", "1 12 * * *"), world.register("b", "1 12 * * *"))
    other = Occurrence.objects.create(
        id=uuid4(),
        job_id=job_id("a"),
        job_version=1,
        scheduled_for=NOON,
        run_at=NOON,
        exclusive=True,
        execution_timeout=timedelta(hours=1),
        created_at=NOON,
        fired_at=NOON,
        state="dispatched",
    )
    world.advance(seconds=45)
    assert world.running == ["b"]
    other.delete()
    world.advance(seconds=5)
    assert world.running == ["a", "b"]
