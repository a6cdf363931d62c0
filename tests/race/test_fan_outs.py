"""Members of one occurrence that workers report at the same time, each with its claim."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any, TypeVar

import pytest
from django.db import connection, transaction

from punctual.execution.ending.attempt_report import Report
from punctual.execution.ending.cancel import cancel, cancel_runs
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import report
from punctual.execution.ending.settle import Settled, settle
from punctual.execution.worker.claim import LEASE, Claim, begin, claim, report_of_claim
from punctual.occurrences import transitions
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import AttemptState, Reason
from tests.harness import Harness
from tests.race.release import declare, release_runs
from tests.race.threads import TIMEOUT, at_once, wait_until_blocked

ROUNDS = 12
Done = TypeVar("Done")


@pytest.fixture(autouse=True)
def whole_minute(harness: Harness) -> None:
    harness.now = harness.now.replace(second=0)


def declare_members(harness: Harness, members: int = 2, **options: Any) -> None:
    declare(members, mode="parallel", **options)
    harness.sync()
    harness.tick()


def claim_each(harness: Harness) -> list[Claim]:
    """Claim each member of the next instant with a message of its own."""
    return [claim([run.id], worker="w", now=harness.now)[0] for run in release_runs(harness)]


def report_of(item: Claim, ending: Ending = Ending.SUCCESS) -> Report:
    error = "" if ending is Ending.SUCCESS else "Broken"
    return report_of_claim(item, Result(ending, error_type=error))


def report_call(harness: Harness, *items: Claim) -> Callable[[], Settled]:
    return partial(report, [report_of(item) for item in items], now=harness.now)


def assert_consistent(id_: Any) -> Occurrence:
    """Assert that the occurrence is finished, and that its report and its attempts match its rows."""
    occurrence = assert_over(id_)
    attempts = Attempt.objects.filter(run__occurrence=id_).order_by("run__position")
    assert [attempt.state for attempt in attempts] == [
        run.state for run in transitions.read_runs([occurrence.id])
    ]
    return occurrence


def assert_over(id_: Any) -> Occurrence:
    occurrence = Occurrence.objects.get(id=id_)
    assert occurrence.finished_at is not None, "not settled"
    assert occurrence.report is not None
    assert occurrence.report["outcome"] == occurrence.state
    statuses = [task["status"] for task in occurrence.report["tasks"]]
    assert statuses == [run.state for run in transitions.read_runs([occurrence.id])]
    return occurrence


@contextmanager
def uncommitted(call: Callable[[], Done]) -> Iterator[Callable[[], Done]]:
    """Execute a call without committing; yields a function that commits and returns its result."""
    called, go_on = Event(), Event()

    def slow() -> Done:
        try:
            with transaction.atomic():
                result = call()
                called.set()
                assert go_on.wait(TIMEOUT)
            return result
        finally:
            connection.close()

    def committed() -> Done:
        go_on.set()
        return future.result(TIMEOUT)

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(slow)
        try:
            assert called.wait(TIMEOUT)
            yield committed
        finally:
            go_on.set()


@contextmanager
def start_blocked(call: Callable[[], Done]) -> Iterator[Callable[[], Done]]:
    """Start a call that waits for a lock; yields a function that returns its result afterwards."""

    def closing() -> Done:
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(closing)
        wait_until_blocked()
        yield lambda: future.result(TIMEOUT)


@pytest.mark.req("EXE-1")
@pytest.mark.parametrize("members", [2, 5])
def test_one_of_several_members_that_end_last_settles(harness: Harness, members: int) -> None:
    declare_members(harness, members)
    for _ in range(ROUNDS):
        claims = claim_each(harness)
        results: list[Settled] = at_once(*(report_call(harness, item) for item in claims))

        id_ = claims[0].run.occurrence.id
        assert [result.finished for result in results if result.finished] == [(id_,)]
        assert sum(result.fenced for result in results) == 0
        assert assert_consistent(id_).state == "completed"


@pytest.mark.req("EXE-1")
def test_bundles_that_share_their_occurrences_end_each_of_them_once(harness: Harness) -> None:
    """Each bundle holds some members of each occurrence; that must not deadlock."""
    declare_members(harness, 6, overlap="allow")
    for _ in range(5):
        runs = [*release_runs(harness), *release_runs(harness), *release_runs(harness)]
        bundles = [claim([run.id for run in runs[n::3]], worker="w", now=harness.now) for n in range(3)]
        begun = [[one for item in bundle if (one := begin(item, now=harness.now))] for bundle in bundles]
        results: list[Settled] = at_once(*(report_call(harness, *bundle) for bundle in begun))

        closed = Counter(id_ for result in results for id_ in result.finished)
        assert closed == {run.occurrence_id: 1 for run in runs}
        assert {assert_consistent(id_).state for id_ in closed} == {"completed"}


@pytest.mark.req("EXE-1")
def test_a_member_need_not_wait_for_another_that_is_being_written(harness: Harness) -> None:
    declare_members(harness)
    first, second = claim_each(harness)
    with uncommitted(report_call(harness, first)) as committed:
        assert report([report_of(second)], now=harness.now) == Settled(), (
            "it still sees the first one as open"
        )
        assert committed() == Settled()
    # Inside its caller's transaction the first one cannot look after its commit; the next look does.
    assert report([report_of(first)], now=harness.now).finished == (first.run.occurrence.id,)
    assert assert_consistent(first.run.occurrence.id).state == "completed"


@pytest.mark.req("EXE-1", "EXE-3")
def test_a_member_waits_for_a_failure_that_is_being_written_and_settles(harness: Harness) -> None:
    """The failure was rolled up while the other member ran: only that one can see that both have ended."""
    declare_members(harness, failure_strategy="continue")
    failing, last = claim_each(harness)
    with (
        uncommitted(partial(report, [report_of(failing, Ending.FATAL)], now=harness.now)) as committed,
        start_blocked(report_call(harness, last)) as went_on,
    ):
        assert committed().finished == ()
        assert went_on().finished == (last.run.occurrence.id,)
    occurrence = Occurrence.objects.get(id=last.run.occurrence.id)
    assert occurrence.state == "completed_with_errors"


@pytest.mark.req("EXE-2")
def test_a_member_that_succeeds_while_a_neighbour_s_failure_cancels_it_has_one_ending(
    harness: Harness,
) -> None:
    declare_members(harness, 3)
    for _ in range(ROUNDS):
        failing, *others = claim_each(harness)
        at_once(
            partial(report, [report_of(failing, Ending.FATAL)], now=harness.now),
            *(report_call(harness, item) for item in others),
        )
        assert assert_over(failing.run.occurrence.id).state == "failed"
        assert not Attempt.objects.filter(state="running").exists()


@pytest.mark.req("EXE-10")
def test_an_occurrence_canceled_while_its_last_members_end_has_one_ending(harness: Harness) -> None:
    declare_members(harness, 3)
    for _ in range(ROUNDS):
        claims = claim_each(harness)
        id_ = claims[0].run.occurrence.id
        results: list[Settled] = at_once(
            *(report_call(harness, item) for item in claims),
            partial(cancel, [id_], reason=Reason.OPERATOR, now=harness.now),
        )
        assert [result.finished for result in results if result.finished] == [(id_,)]
        states = Counter(task.state for task in TaskRun.objects.filter(occurrence=id_))
        assert sum(result.fenced for result in results) == states["canceled"]
        assert assert_consistent(id_).state in {"completed", "canceled"}


@pytest.mark.req("EXE-10")
def test_a_member_canceled_while_the_other_ends_leaves_no_occurrence_open(harness: Harness) -> None:
    declare_members(harness)
    for _ in range(ROUNDS):
        first, second = claim_each(harness)
        results: list[Settled] = at_once(
            report_call(harness, first),
            partial(cancel_runs, [second.run.id], reason=Reason.OPERATOR, now=harness.now),
        )
        assert sum(len(result.finished) for result in results) == 1
        assert assert_consistent(first.run.occurrence.id).state == "completed"
        assert TaskRun.objects.get(id=second.run.id).state == "canceled"


@pytest.mark.req("EXE-1", "EXE-10")
def test_a_sequence_that_is_settled_and_canceled_while_a_step_ends_goes_on_or_ends(harness: Harness) -> None:
    declare(3)
    harness.sync()
    harness.tick()
    for canceled in [True, False] * (ROUNDS // 2):
        first, *_ = release_runs(harness)
        (item,) = claim([first.id], worker="w", now=harness.now)
        id_ = first.occurrence_id
        stop = partial(cancel, [id_], reason=Reason.OPERATOR, now=harness.now)
        at_once(report_call(harness, item), stop if canceled else partial(settle, [id_], now=harness.now))

        steps = TaskRun.objects.filter(occurrence=id_).order_by("position")[1:]
        if canceled:
            assert [step.state for step in steps] == ["canceled"] * 2
            assert assert_over(id_).state == "canceled"
        else:
            released = [(step.state, step.available_at) for step in steps]
            assert released == [("scheduled", harness.now), ("scheduled", None)]
            stop()


@pytest.mark.req("TSK-2")
def test_a_member_that_was_taken_over_ignores_the_report_of_its_first_worker(
    harness: Harness,
) -> None:
    declare_members(harness)
    for _ in range(ROUNDS):
        zombie, other = claim_each(harness)
        late = harness.now + LEASE
        transitions.expire([zombie.run.id], now=late)
        transitions.end_attempts([zombie.run.id], AttemptState.LOST, now=late)
        (fresh,) = claim([zombie.run.id], worker="second", now=late)
        results: list[Settled] = at_once(*(report_call(harness, item) for item in (zombie, fresh, other)))

        id_ = other.run.occurrence.id
        assert [result.fenced for result in results] == [1, 0, 0]
        assert [result.finished for result in results if result.finished] == [(id_,)]
        assert Occurrence.objects.get(id=id_).state == "completed"
        tries = Attempt.objects.filter(run=zombie.run.id).order_by("number")
        assert [item.state for item in tries] == ["lost", "success"]


@pytest.mark.req("EXE-6")
def test_of_members_claimed_at_once_each_knows_since_when_and_until_when(harness: Harness) -> None:
    declare_members(harness)
    first, second = release_runs(harness)
    taken = partial(claim, [first.id], worker="w", now=harness.now)
    later = partial(claim, [second.id], worker="w", now=harness.now + timedelta(seconds=1))
    with uncommitted(taken) as committed, start_blocked(later) as went_on:
        claims = [item for call in (committed, went_on) for item in call()]
    occurrence = Occurrence.objects.get(id=first.occurrence_id)
    assert [item.run.first for item in claims] == [True, False]
    for item in claims:
        times = (item.run.occurrence.started_at, item.run.deadline_at)
        assert times == (harness.now, occurrence.deadline_at)
    assert occurrence.state == "running"
