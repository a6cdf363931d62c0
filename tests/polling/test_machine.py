"""Random life cycles in virtual time: registrations, failures, stops and crashes keep the properties.

Callbacks may call `initialize` or `stop` themselves, clocks jump, and processes crash and restart with
other registrations. Trace and ledger are checked after every life cycle.
"""

import os
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import Phase as Part
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import RUN_HELD
from punctual.polling.phases import Phase
from punctual.polling.registrations import Callback, Registration
from tests.polling.conftest import clear
from tests.polling.trace import RunStart
from tests.polling.world import World

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
EXAMPLES, STEPS = (300, 40) if THOROUGH else (40, 15)

# Half an hour before a gap and a fold (Berlin has both at 01:00 UTC), and on an ordinary day.
BEGINNINGS = [
    datetime(2026, 3, 29, 0, 30, 20, tzinfo=UTC),
    datetime(2026, 10, 25, 0, 30, 20, tzinfo=UTC),
    datetime(2026, 6, 10, 12, 0, 0, tzinfo=UTC),
]
CRONS = [
    "* * * * *",
    "0,30 * * * *",
    "0,15,30,45 2,3 * * *",
    "30 2 * * *",
    "1,2,3,31,32 * * * *",
    "0 0 1 1 *",
]
DELAYS = [0.0, 7.0, 90.0, 1200.0]
NAMES = ["a", "b", "c"]
SPANS = [0.05, 1, 10, 40, 61, 130, 400, 2000]
BEHAVIOURS = [*["wait"] * 4, *["succeed"] * 3, *["fail"] * 2, "stop", "initialize"]

registrations = st.dictionaries(
    st.sampled_from(NAMES),
    st.tuples(st.sampled_from(CRONS), st.sampled_from(DELAYS), st.sampled_from(BEHAVIOURS)),
)
spans = st.sampled_from(SPANS)  # every step takes time, so that tasks become due between steps
Wanted = dict[str, tuple[str, float, str]]


class Lives(RuleBasedStateMachine):
    @initialize(now=st.sampled_from(BEGINNINGS))
    def begin(self, now: datetime) -> None:
        clear()
        self.world = World(now, zone="Europe/Berlin")
        self.wanted: Wanted = {}
        self.up = True

    @precondition(lambda self: self.up)
    @rule(wanted=registrations, seconds=spans)
    def register(self, wanted: Wanted, seconds: float) -> None:
        self.wanted = wanted
        self._initialize()
        self.world.advance(seconds=seconds)

    @precondition(lambda self: self.up and self.wanted)
    @rule(seconds=spans)
    def register_the_same_again(self, seconds: float) -> None:
        self._initialize()
        self.world.advance(seconds=seconds)

    @precondition(lambda self: self.up and self.wanted)
    @rule(seconds=spans)
    def stop(self, seconds: float) -> None:
        self.world.begin(self.world.process.lifecycle.stop())
        self.world.advance(seconds=seconds)

    @rule(seconds=spans)
    def wait(self, seconds: float) -> None:
        self.world.advance(seconds=seconds)

    @precondition(lambda self: self.world.calls)
    @rule(data=st.data(), well=st.booleans(), seconds=spans)
    def end_a_callback(self, data: st.DataObject, well: bool, seconds: float) -> None:  # noqa: FBT001 - drawn
        task = data.draw(st.sampled_from(sorted(set(self.world.running))))
        self.world.finish(task, None if well else ValueError("drawn"))
        self.world.advance(seconds=seconds)

    @precondition(lambda self: self.up and self.wanted)
    @rule(seconds=spans)
    def crash(self, seconds: float) -> None:
        self.world.crash()
        self.world.calls.clear()
        self.up = False
        self.world.advance(seconds=seconds)

    @precondition(lambda self: not self.up)
    @rule(change=st.none() | registrations, seconds=spans)
    def come_back(self, change: Wanted | None, seconds: float) -> None:
        self.world.boot()
        self.up = True
        self.wanted = self.wanted if change is None else change
        self._initialize()
        self.world.advance(seconds=seconds)

    def _initialize(self) -> None:
        self.world.advance(seconds=0.2)  # two initializations never happen at the same instant
        self.world.begin(self.world.process.lifecycle.initialize(self._registrations()))

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        try:
            for _ in range(
                4
            ):  # a callback that waits for a stop or an initialize continues when the others have ended
                for task in world.running:
                    world.finish(task)
            world.assert_properties_hold()
            self.check_ledger()
        finally:
            world.close()

    def check_ledger(self) -> None:
        """Every start is an attempt, every held run is running, and no runs overlap."""
        starts = Counter(event.task for event in self.world.recorder.events if isinstance(event, RunStart))
        attempts = Counter(Attempt.objects.values_list("run__occurrence__job__name", flat=True))
        assert attempts == starts
        engine = self.world.process.engine
        held = TaskRun.objects.filter(state__in=RUN_HELD, claimed_by=engine.dependencies.worker)
        running = engine.running_names if self.up else set()
        assert not self.up or set(held.values_list("task__name", flat=True)) == running
        active = Counter(Occurrence.objects.active().values_list("job__name", flat=True))
        assert all(count == 1 for count in active.values())
        assert engine.dependencies.database.busy == 0

    # -- callbacks -------------------------------------------------------------------------------

    def _registrations(self) -> list[Registration]:
        return [
            Registration(name, cron, self._callback(name, behaviour), self._delay(delay, behaviour))
            for name, (cron, delay, behaviour) in self.wanted.items()
        ]

    @staticmethod
    def _delay(delay: float, behaviour: str) -> timedelta:
        # Failing and retrying at once means ten polls a second: allowed, but slow to simulate.
        return timedelta(seconds=max(delay, 60.0) if behaviour == "fail" else delay)

    def _callback(self, name: str, behaviour: str) -> Callback:
        life = self.world.process.lifecycle

        async def succeed() -> None: ...

        async def fail() -> None:
            raise ValueError(name)

        async def stop() -> None:
            await life.stop()

        async def again() -> None:
            if life.phase is Phase.RUNNING:
                await life.initialize(self._registrations())

        behaviours: dict[str, Callback] = {
            "succeed": succeed,
            "fail": fail,
            "stop": stop,
            "initialize": again,
        }
        return behaviours.get(behaviour, self.world.open_call(name))


@pytest.mark.req("POL-8")
def test_random_life_cycles_keep_the_temporal_properties(transactional_db: None) -> None:
    run_state_machine_as_test(
        Lives,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            # An example takes a second; reading a failure of eighteen steps is faster than shrinking it.
            phases=[Part.explicit, Part.reuse, Part.generate, *([Part.shrink] if THOROUGH else [])],
            suppress_health_check=list(HealthCheck),
        ),
    )
