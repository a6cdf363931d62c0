"""`initialize` and `stop`: repeated, concurrent, called from callbacks; their phases and events."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import Error, connection

from punctual.occurrences.models import Attempt
from punctual.polling import errors
from punctual.polling.phases import Phase
from punctual.polling.registrations import Callback, Registration
from punctual.polling.scheduler_events import Facts, SchedulerEvent
from tests.polling.world import LEASE, World

pytestmark = pytest.mark.req("POL-5")

FIRST = [
    SchedulerEvent.INITIALIZATION_STARTED,
    SchedulerEvent.INITIALIZATION_COMPLETED,
    SchedulerEvent.POLLING_STARTED,
]


@pytest.mark.req("POL-7")
def test_a_life_cycle_emits_its_events_by_name(world: World) -> None:
    world.initialize(world.register("a", delay=30))
    world.finish("a", ValueError("no"))
    world.advance(seconds=31)
    world.finish("a")
    world.stop()
    assert [str(signal) for signal in world.signals] == [
        "SchedulerInitializationStarted",
        "SchedulerInitializationCompleted",
        "PollingStarted",
        "TaskRunStarted",
        "TaskRunFailed",
        "TaskRetryStarted",
        "TaskRunCompleted",
        "SchedulerStopRequested",
        "PollingStopRequested",
        "PollingStopped",
        "SchedulerStopped",
    ]


@pytest.mark.req("POL-7")
def test_reinitializing_and_preempting_emit_their_own_events(world: World) -> None:
    world.initialize(world.register("a", delay=600))
    world.finish("a", ValueError("no"))
    world.initialize(world.register("a", delay=600))
    world.advance(minutes=1)
    assert [str(signal) for signal in world.signals[5:]] == [
        "SchedulerReinitializationStarted",
        "SchedulerInitializationCompleted",
        "TaskRetryPreempted",
        "TaskRunStarted",
    ]


@pytest.mark.req("POL-7")
def test_events_are_log_lines_with_ids(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="punctual"):
        world.initialize(world.register("a"))
    lines = {vars(record)["event"]: vars(record)["facts"] for record in caplog.records}
    assert lines["TaskRunStarted"]["task"] == "a"
    assert str(lines["TaskRunStarted"]["run"]).startswith("run_")


@pytest.mark.req("POL-7")
def test_a_failing_listener_is_logged_and_stops_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_signal: SchedulerEvent, _facts: Facts) -> None:
        raise RuntimeError("listener")

    world.process.lifecycle.engine.dependencies = replace(world.process.engine.dependencies, listener=fail)
    world.initialize(world.register("a"))
    assert world.running == ["a"]
    assert "listener.failed signal=TaskRunStarted" in caplog.text


def test_the_phases_follow_the_documented_order(world: World) -> None:
    life = world.process.lifecycle
    assert world.phase == Phase.UNINITIALIZED
    with pytest.raises(errors.RegistrationsNotArrayError):
        world.do(life.initialize(None))
    assert world.phase == Phase.UNINITIALIZED
    world.initialize(world.register("a"))
    assert world.phase == Phase.RUNNING
    stopping = world.begin(life.stop())
    assert world.phase == Phase.STOPPING
    world.finish("a")
    assert stopping.done()
    assert world.phase == Phase.STOPPED


@pytest.mark.req("POL-6")
def test_a_failed_first_initialize_emits_an_event_and_stays_uninitialized(world: World) -> None:
    with pytest.raises(errors.NegativeRetryDelayError):
        world.initialize(world.register("a", delay=-1))
    assert world.signals == [SchedulerEvent.INITIALIZATION_STARTED, SchedulerEvent.INITIALIZATION_FAILED]


@pytest.mark.req("POL-6")
def test_a_failed_reinitialize_stops_polling_and_lets_callbacks_finish(world: World) -> None:
    world.initialize(world.register("a"))
    with pytest.raises(errors.NegativeRetryDelayError):
        world.initialize(world.register("b", delay=-1))
    assert world.signals[-3:] == [
        SchedulerEvent.REINITIALIZATION_STARTED,
        SchedulerEvent.POLLING_STOPPED,
        SchedulerEvent.INITIALIZATION_FAILED,
    ]
    assert world.phase == Phase.UNINITIALIZED
    world.advance(minutes=2)
    world.finish("a")
    world.advance(minutes=2)
    assert (world.ends("a"), world.running) == ([True], [])
    world.initialize(world.register("a"))
    world.advance(seconds=1)
    assert world.running == ["a"]


def test_stop_waits_for_running_callbacks_and_starts_nothing_more(world: World) -> None:
    world.initialize(world.register("a"), world.register("b"))
    stopping = world.begin(world.process.lifecycle.stop())
    world.advance(minutes=3)
    assert not stopping.done()
    world.finish("a")
    assert not stopping.done()
    world.finish("b", ValueError("no"))
    assert stopping.done()
    world.advance(minutes=3)
    assert len(world.starts("a")) == 1


def test_nothing_starts_once_a_stop_was_requested_even_in_the_middle_of_a_poll(world: World) -> None:
    async def callback() -> None:
        await world.process.lifecycle.stop()

    world.initialize(*(Registration(name, "* * * * *", callback, timedelta()) for name in "abcdef"))
    requested = world.signals.index(SchedulerEvent.STOP_REQUESTED)
    assert SchedulerEvent.RUN_STARTED not in world.signals[requested:]
    assert world.signals.count(SchedulerEvent.RUN_STARTED) <= 2, (
        "the first, and one whose claim was under way"
    )


def test_a_canceled_stop_can_be_repeated(world: World) -> None:
    world.initialize(world.register("a"))
    impatient = world.begin(world.process.lifecycle.stop())
    impatient.cancel()
    world.do(world.settle())
    assert world.phase == Phase.STOPPING
    patient = world.begin(world.process.lifecycle.stop())
    world.finish("a")
    assert patient.done()
    assert world.phase == Phase.STOPPED


def test_stop_waits_for_an_initialize_in_progress(world: World) -> None:
    async def both() -> None:
        life = world.process.lifecycle
        await asyncio.gather(life.initialize([world.register("a", "0 3 * * *")]), life.stop())

    world.do(both())
    assert [signal for signal in world.signals if signal.startswith("Scheduler")] == [
        SchedulerEvent.INITIALIZATION_STARTED,
        SchedulerEvent.INITIALIZATION_COMPLETED,
        SchedulerEvent.STOP_REQUESTED,
        SchedulerEvent.STOPPED,
    ]


def test_initialize_after_stop_works(world: World) -> None:
    for _ in range(3):
        world.initialize(world.register("a"))
        world.advance(seconds=1)
        if world.running:
            world.finish("a")
        world.stop()
        world.advance(minutes=1)
    assert len(world.starts("a")) == 3
    assert world.signals[:3] == FIRST
    assert world.signals.count(SchedulerEvent.REINITIALIZATION_STARTED) == 0


def test_stop_is_harmless_before_initialize_and_when_repeated(world: World) -> None:
    world.stop()
    assert world.signals == []
    world.initialize(world.register("a", "0 3 * * *"))
    world.stop()
    world.stop()
    assert world.signals.count(SchedulerEvent.STOPPED) == 1


def test_concurrent_initializes_and_stops_end_in_order(world: World) -> None:
    async def crowd() -> None:
        life = world.process.lifecycle
        calls = [
            life.initialize([world.register("a", "0 3 * * *")]) if n % 3 else life.stop() for n in range(9)
        ]
        await asyncio.gather(*calls)

    world.do(crowd())
    assert world.phase == Phase.RUNNING
    world.assert_properties_hold()


def test_without_registrations_nothing_is_polled(world: World) -> None:
    world.initialize()
    assert world.signals == FIRST[:2]
    world.initialize(world.register("a", "0 3 * * *"))
    world.initialize()
    assert world.signals[-2:] == [SchedulerEvent.INITIALIZATION_COMPLETED, SchedulerEvent.POLLING_STOPPED]
    world.advance(minutes=5)
    assert world.process.sleepers == []


# -- from inside callbacks -----------------------------------------------------------------------


def inside(world: World, call: Callback) -> Registration:
    return Registration("inner", "* * * * *", call, timedelta(hours=1))


def test_a_callback_may_stop_its_own_scheduler(world: World) -> None:
    async def callback() -> None:
        await world.process.lifecycle.stop()

    world.initialize(inside(world, callback))
    assert world.phase == Phase.STOPPED
    assert world.ends("inner") == [True]


def test_callbacks_that_all_stop_their_scheduler_do_not_deadlock(world: World) -> None:
    proceed = asyncio.Event()

    async def callback() -> None:
        await proceed.wait()
        await asyncio.create_task(world.process.lifecycle.stop())

    twice = [Registration(name, "* * * * *", callback, timedelta()) for name in ("x", "y")]
    world.initialize(*twice, world.register("other"))
    proceed.set()
    world.do(world.settle())
    assert world.phase == Phase.STOPPING
    world.finish("other")
    assert world.phase == Phase.STOPPED
    assert (world.ends("x"), world.ends("y")) == ([True], [True])


def test_a_callback_may_initialize_its_own_scheduler(world: World) -> None:
    async def callback() -> None:
        await world.process.lifecycle.initialize([inside(world, callback), world.register("other")])

    world.initialize(inside(world, callback))
    world.advance(seconds=1)
    assert world.ends("inner") == [True]
    assert world.running == ["other"]


def test_a_callback_that_initializes_during_a_stop_is_served_after_the_stop(world: World) -> None:
    proceed = asyncio.Event()

    async def callback() -> None:
        await proceed.wait()
        await world.process.lifecycle.initialize([world.register("other", "0 3 * * *")])

    world.initialize(inside(world, callback))
    stopping = world.begin(world.process.lifecycle.stop())
    proceed.set()
    world.do(world.settle())
    assert stopping.done()
    assert world.phase == Phase.RUNNING


# -- errors --------------------------------------------------------------------------------------


@contextmanager
def missing(table: str) -> Iterator[None]:
    """Make every statement on the table fail during the block."""
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {table}_away")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table}_away RENAME TO {table}")


@pytest.mark.req("POL-4")
def test_an_outcome_is_recorded_once_the_database_is_back(world: World) -> None:
    world.initialize(world.register("a", "0 12 * * *"))
    with missing("punctual_attempt"):
        world.finish("a")
        world.advance(seconds=5)
        assert world.ends("a") == []
    world.advance(seconds=2)
    assert world.ends("a") == [True]
    assert Attempt.objects.get().state == "success"


def test_a_failed_poll_emits_an_event_and_polling_goes_on(world: World) -> None:
    world.initialize(world.register("a", "1 12 * * *"))
    with missing("punctual_taskstate"):
        world.advance(seconds=45)
        assert world.signals[-1] is SchedulerEvent.POLL_FAILED
    world.advance(seconds=5)
    assert world.running == ["a"]


@pytest.mark.req("POL-6")
def test_stop_raises_when_an_outcome_could_not_be_recorded_and_still_stops(world: World) -> None:
    world.initialize(world.register("a", "0 12 * * *"))
    with missing("punctual_attempt"):
        world.finish("a")
        world.advance(seconds=LEASE.total_seconds() + 1)
        assert SchedulerEvent.OUTCOME_UNRECORDED in world.signals
        with pytest.raises(errors.StopSchedulerError) as caught:
            world.stop()
    cause = caught.value.details["cause"]
    assert isinstance(cause, Error)
    assert str(caught.value) == f"Failed to stop scheduler: {cause}"
    assert world.phase == Phase.STOPPED
    world.recorder.events.clear()  # the end of this run was never recorded


@pytest.mark.req("POL-6")
def test_a_database_that_fails_during_initialize_leaves_it_uninitialized(world: World) -> None:
    with missing("punctual_taskstate"), pytest.raises(errors.SchedulerDatabaseError):
        world.initialize(world.register("a"))
    assert world.phase == Phase.UNINITIALIZED
    world.initialize(world.register("a"))
    assert world.running == ["a"]


@pytest.mark.req("POL-7")
def test_a_scheduler_notices_that_another_has_replaced_its_registrations(world: World) -> None:
    first = world.process
    world.initialize(world.register("a", "0 3 * * *"), world.register("b", "0 4 * * *"))
    second = world.boot()
    world.do(
        second.lifecycle.initialize([world.register("b", "0 4 * * *"), world.register("c", "0 5 * * *")])
    )
    world.advance(minutes=2)
    assert (first.lifecycle.phase, second.lifecycle.phase) == (Phase.REPLACED, Phase.RUNNING)
    assert world.signals.count(SchedulerEvent.REPLACED) == 1, "emitted once, not at every poll"

    world.do(first.lifecycle.initialize([world.register("a", "0 3 * * *"), world.register("b", "0 4 * * *")]))
    world.advance(minutes=2)
    assert (first.lifecycle.phase, second.lifecycle.phase) == (Phase.RUNNING, Phase.REPLACED)


@pytest.mark.req("POL-7")
def test_a_scheduler_whose_set_is_registered_again_is_reinstated(world: World) -> None:
    first = world.process
    world.initialize(world.register("a", "0 3 * * *"))
    second = world.boot()
    world.do(second.lifecycle.initialize([world.register("c", "0 5 * * *")]))
    world.advance(minutes=2)
    world.do(second.lifecycle.initialize([world.register("a", "0 3 * * *")]))
    world.advance(minutes=2)
    assert (first.lifecycle.phase, second.lifecycle.phase) == (Phase.RUNNING, Phase.RUNNING)
    assert world.signals.count(SchedulerEvent.REINSTATED) == 1


@pytest.mark.req("POL-7")
def test_processes_with_the_same_set_do_not_replace_each_other(world: World) -> None:
    world.initialize(world.register("a", "0 3 * * *"), world.register("b", "0 4 * * *"))
    second = world.boot()
    world.do(
        second.lifecycle.initialize([world.register("b", "0 4 * * *"), world.register("a", "0 3 * * *")])
    )
    world.advance(minutes=2)
    assert {process.lifecycle.phase for process in world.processes} == {Phase.RUNNING}
    assert SchedulerEvent.REPLACED not in world.signals
