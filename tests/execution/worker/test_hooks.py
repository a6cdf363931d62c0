import logging
import os
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from punctual import Job as DeclaredJob
from punctual.conf import current_settings
from punctual.execution.ending import hook_calls
from punctual.execution.ending.cancel import cancel
from punctual.execution.ending.hook_calls import MAX_TRIES
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.models import HUNG_FOR, HookCall, HookEvent
from punctual.execution.supervision.board import board
from punctual.execution.worker.hooks import call_hooks
from punctual.jobs.declaration.registry import Registry
from punctual.jobs.errors import Cancel, HandBack, Snooze
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState
from tests.execution.conftest import NOW
from tests.harness import Harness, hook_into
from tests.occurrences.factories import a_run, an_occurrence, saved

pytestmark = pytest.mark.req("JOB-9")

LATER = NOW + timedelta(minutes=1)
S = OccurrenceState


@pytest.fixture
def declaration(declared: Registry) -> DeclaredJob:
    return DeclaredJob("job", "@hourly")


def call(*rows: Occurrence, at: datetime = LATER) -> int:
    return call_hooks([row.id for row in rows], clock=lambda: at, record=lambda write: write())


def request(row: Occurrence, at: datetime = LATER) -> int:
    """Call as the sweeper requests it."""
    HookCall.objects.update(requested_at=at)
    return call(row, at=at)


def finished(
    job: Job, declaration: DeclaredJob, state: OccurrenceState = S.COMPLETED, at: datetime = NOW
) -> Occurrence:
    columns: dict[str, Any] = {"config": declaration.config, "report": {"outcome": str(state)}}
    return saved(an_occurrence(job, at, state, **columns))


def fail(argument: Any) -> None:
    raise RuntimeError("the hook is broken")


def hang(argument: Any) -> None:
    """As the supervisor ends a hook that takes longer than its limit."""
    raise SoftTimeLimitExceeded


@pytest.mark.parametrize(
    "state", [S.COMPLETED, S.FAILED, S.CANCELED, S.FAILED_STALE, S.COMPLETED_WITH_ERRORS]
)
def test_completion_hooks_get_the_stored_report_whatever_the_outcome_and_are_called_once(
    job: Job, declaration: DeclaredJob, state: OccurrenceState
) -> None:
    seen: list[Any] = []
    declaration.on_complete(hook_into(seen))
    row = finished(job, declaration, state)
    assert call(row) == 1
    assert call(row) == 0
    assert seen == [{"outcome": state}]
    assert Occurrence.objects.get().finalized_at == LATER
    record = HookCall.objects.get()
    assert (record.event, record.tries, record.failed, record.error) == ("on_complete", 1, False, "")
    assert (record.started_at, record.finished_at, record.slot) == (LATER, LATER, None)


@pytest.mark.parametrize("state", [S.PENDING, S.DISPATCHED, S.RUNNING])
def test_no_completion_hook_is_called_for_what_is_not_over(
    job: Job, declaration: DeclaredJob, state: OccurrenceState
) -> None:
    declaration.on_complete(fail)
    row = saved(an_occurrence(job, NOW, state, config=declaration.config))
    assert call(row) == 0
    assert not HookCall.objects.exists()
    assert Occurrence.objects.get().finalized_at is None


@pytest.mark.parametrize(
    "error", [RuntimeError("x"), SystemExit(1), KeyboardInterrupt(), Snooze(60), Cancel("no")]
)
def test_a_hook_that_raises_is_recorded_and_stops_neither_the_others_nor_the_outcome(
    job: Job, declaration: DeclaredJob, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    seen: list[Any] = []

    @declaration.on_complete
    def broken(report: Any) -> None:
        raise error

    declaration.on_complete(hook_into(seen))
    row = finished(job, declaration)
    with caplog.at_level(logging.WARNING, logger="punctual"):
        assert call(row) == 1
    assert len(seen) == 1
    assert Occurrence.objects.get().state == S.COMPLETED
    record = HookCall.objects.get(failed=True)
    assert (record.tries, record.position, bool(record.error)) == (1, 0, not isinstance(error, Snooze))
    (message,) = [entry.getMessage() for entry in caplog.records]
    assert message.startswith(f"hook.failed job=job occurrence={row.display_id} hook=on_complete {__name__}")


def test_async_hooks_are_awaited(job: Job, declaration: DeclaredJob) -> None:
    seen: list[Any] = []

    @declaration.on_complete
    async def notify(report: Any) -> None:
        seen.append(report)

    assert call(finished(job, declaration)) == 1
    assert seen == [{"outcome": "completed"}]


def test_a_hook_that_hangs_is_tried_three_times_and_then_recorded_as_failed(
    job: Job, declaration: DeclaredJob
) -> None:
    declaration.on_complete(hang)
    row = finished(job, declaration)
    assert [call(row), call(row)] == [0, 0]
    assert HookCall.objects.get().tries == 1, "the next one when the sweeper requests it"
    assert [request(row, at=LATER + n * timedelta(seconds=1)) for n in range(1, 4)] == [0, 1, 0]
    record = HookCall.objects.get()
    assert (record.tries, record.failed, record.error) == (MAX_TRIES, True, "took longer than 1m")
    assert Occurrence.objects.get().state == S.COMPLETED
    assert Occurrence.objects.get().finalized_at == LATER + timedelta(seconds=2)


def test_a_hook_that_its_stopping_worker_hands_back_has_not_been_tried(
    job: Job, declaration: DeclaredJob
) -> None:
    @declaration.on_complete
    def interrupted(report: Any) -> None:
        raise HandBack("its worker was told to stop")

    row = finished(job, declaration)
    assert [call(row) for _ in range(5)] == [0] * 5
    record = HookCall.objects.get()
    assert (record.tries, record.slot, record.finished_at) == (0, None, None)


@pytest.mark.req("JOB-4")
def test_a_name_that_no_code_registers_is_recorded_as_unresolved(job: Job, declared: Registry) -> None:
    columns: dict[str, Any] = {"config": {"on_complete": ["os.getcwd"]}, "report": {}}
    row = saved(an_occurrence(job, NOW, S.COMPLETED, **columns))
    assert call(row) == 1
    assert HookCall.objects.get().error == "Unresolved: no code registers the hook 'os.getcwd'"


def test_the_supervisor_sees_a_hook_under_its_time_limit(
    job: Job, declaration: DeclaredJob, settings: Any
) -> None:
    settings.PUNCTUAL = {"hook_timeout": "7s"}
    seen: list[Any] = []

    @declaration.on_complete
    def look(report: Any) -> None:
        seen.append(board.own_slot().facts())

    row = finished(job, declaration)
    call(row)
    (facts,) = seen
    record = HookCall.objects.get()
    assert (facts.hook, facts.run_id, facts.occurrence_id) == (True, record.id, row.id)
    assert (round(facts.limit - facts.since), facts.pid) == (7, os.getpid())
    assert not board.own_slot().active


# -- start ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "released"), [("sequential", 1), ("parallel", 2)])
def test_start_hooks_release_the_tasks_that_wait_for_them(
    queue: Harness, task: Task, second: Task, declaration: DeclaredJob, mode: str, released: int
) -> None:
    seen: list[Any] = []
    declaration.on_start(hook_into(seen))
    row = saved(an_occurrence(task.job, NOW, S.DISPATCHED, config={**declaration.config, "mode": mode}))
    for step in (task, second):
        saved(a_run(row, step, available_at=None))
    call(row)
    assert seen == [row]
    assert TaskRun.objects.filter(available_at=LATER).count() == released
    assert queue.lose_messages() == released


@pytest.mark.parametrize("hook", [fail, hang])
def test_tasks_start_after_a_start_hook_that_fails(
    queue: Harness, job: Job, task: Task, declaration: DeclaredJob, hook: Callable[..., Any]
) -> None:
    declaration.on_start(hook)
    row = saved(an_occurrence(job, NOW, S.DISPATCHED, config=declaration.config))
    saved(a_run(row, task, available_at=None))
    tries = MAX_TRIES if hook is hang else 1
    for _ in range(tries):
        assert not TaskRun.objects.filter(available_at__isnull=False).exists()
        request(row)
    assert TaskRun.objects.get().available_at == LATER
    assert HookCall.objects.get().failed


def test_a_start_hook_of_an_occurrence_that_is_over_is_not_called(
    job: Job, task: Task, declaration: DeclaredJob
) -> None:
    seen: list[Any] = []
    declaration.on_start(hook_into(seen, "start"))
    declaration.on_complete(hook_into(seen, "complete"))
    row = saved(an_occurrence(job, NOW, S.DISPATCHED, config=declaration.config))
    hook_calls.register([row], now=NOW)
    cancel([row.id], reason="operator", now=NOW)
    assert call(row) == 1
    assert [report["outcome"] for report in seen] == ["canceled"]
    assert HookCall.objects.get(event=HookEvent.ON_START).error == "not called: the occurrence was over"


def test_an_occurrence_that_is_canceled_during_its_start_hook_still_gets_its_completion_hook(
    job: Job, task: Task, declaration: DeclaredJob
) -> None:
    seen: list[Any] = []

    @declaration.on_start
    def end(occurrence: Occurrence) -> None:
        cancel([occurrence.id], reason="operator", now=LATER)

    declaration.on_complete(hook_into(seen))
    row = saved(an_occurrence(job, NOW, S.DISPATCHED, config=declaration.config))
    saved(a_run(row, task, available_at=None))
    assert call(row) == 0, "its completion hooks were not due when it was looked at"
    assert Occurrence.objects.get().finalized_at is None
    assert call(row) == 1
    assert [report["outcome"] for report in seen] == ["canceled"]


# -- slots ---------------------------------------------------------------------------------------------


def waiting(job: Job, declaration: DeclaredJob, count: int) -> list[HookCall]:
    rows = [finished(job, declaration, at=NOW + timedelta(hours=number)) for number in range(count)]
    hook_calls.register(rows, now=NOW)
    return list(HookCall.objects.order_by("occurrence__scheduled_for"))


def claim(item: HookCall, at: datetime = LATER, *, hung: bool = False) -> Any:
    return hook_calls.claim(item, hung=hung, worker="w/1", now=at, settings=current_settings())


def test_a_call_has_one_process_at_a_time_until_its_lease_is_over(job: Job, declaration: DeclaredJob) -> None:
    declaration.on_complete(fail)
    (item,) = waiting(job, declaration, 1)
    settings = current_settings()
    first = claim(item)
    assert first is not None
    end = LATER + settings.hook_timeout + settings.kill_after + settings.lease
    assert claim(item, end - timedelta(seconds=1)) is None
    second = claim(item, end)
    assert second not in (None, first)
    assert hook_calls.end_try(item.id, first, Result(Ending.SUCCESS), now=end) is False
    item.refresh_from_db()
    assert (item.tries, item.hung_at, item.finished_at) == (2, end, None)


def test_a_call_whose_last_worker_died_is_over(job: Job, declaration: DeclaredJob) -> None:
    declaration.on_complete(fail)
    (item,) = waiting(job, declaration, 1)
    hours = [LATER + timedelta(hours=number) for number in range(4)]
    assert [claim(item, at) is not None for at in hours] == [True, True, True, False]
    item.refresh_from_db()
    assert (item.tries, item.failed, item.error) == (3, True, "its worker stopped responding")
    assert item.finished_at == hours[-1]


def test_hooks_take_a_bounded_number_of_processes(job: Job, declaration: DeclaredJob, settings: Any) -> None:
    settings.PUNCTUAL = {"hook_slots": 3}
    declaration.on_complete(fail)
    calls = waiting(job, declaration, 5)
    assert [claim(item) is not None for item in calls] == [True, True, True, False, False]


def test_hooks_that_hung_share_one_process_for_a_while(
    job: Job, declaration: DeclaredJob, settings: Any
) -> None:
    settings.PUNCTUAL = {"hook_slots": 3}
    declaration.on_complete(hang)
    calls = waiting(job, declaration, 3)
    call(calls[0].occurrence)
    assert HookCall.objects.hanging(LATER).count() == 3
    assert [claim(item, hung=True) is not None for item in calls] == [True, False, False]
    assert HookCall.objects.hanging(LATER + HUNG_FOR).count() == 0


def test_a_hook_that_works_again_is_no_longer_held_to_one_slot(job: Job, declaration: DeclaredJob) -> None:
    called: list[Any] = []

    @declaration.on_complete
    def hangs_once(report: Any) -> None:
        called.append(report)
        if len(called) == 1:
            raise SoftTimeLimitExceeded

    first, _ = waiting(job, declaration, 2)
    call(first.occurrence)
    assert HookCall.objects.hanging(LATER).count() == 2
    request(first.occurrence)
    assert HookCall.objects.hanging(LATER).count() == 0
    assert len(called) == 3, "the process then made the call that waited"


def test_a_stopping_worker_begins_no_hook(job: Job, declaration: DeclaredJob) -> None:
    seen: list[Any] = []
    declaration.on_complete(hook_into(seen))
    row = finished(job, declaration)
    try:
        board.head(supervisor=0, stopping=True)
        assert call(row) == 0
    finally:
        board.head(supervisor=0)
    assert seen == []
    assert call(row) == 1


def test_a_request_that_finds_no_slot_may_be_repeated_at_once(job: Job, declaration: DeclaredJob) -> None:
    declaration.on_complete(hang)
    first, second = waiting(job, declaration, 2)
    call(first.occurrence)
    HookCall.objects.update(requested_at=LATER)
    assert claim(first, hung=True) is not None
    call(second.occurrence)
    second.refresh_from_db()
    assert (second.tries, second.requested_at) == (0, None)


def test_a_process_that_is_done_makes_calls_that_found_no_slot(
    job: Job, declaration: DeclaredJob, settings: Any
) -> None:
    settings.PUNCTUAL = {"hook_slots": 1}
    seen: list[Any] = []
    declaration.on_complete(hook_into(seen))
    first, second = waiting(job, declaration, 2)
    token = claim(second)
    call(first.occurrence)
    assert seen == []
    hook_calls.end_try(second.id, token, Result(Ending.RELEASED), now=LATER)
    call(second.occurrence)
    assert len(seen) == 2
    assert Occurrence.objects.unfinalized().count() == 0


def test_the_database_refuses_two_calls_in_one_slot(job: Job, declaration: DeclaredJob) -> None:
    """Another process takes the slot between the read and the write: the next slot is tried."""
    declaration.on_complete(fail)
    first, second = waiting(job, declaration, 2)
    free = hook_calls.free_slots(hung=False, now=LATER, settings=current_settings())
    HookCall.objects.filter(id=first.id).update(slot=free[0], token=uuid4(), lease_until=LATER + HUNG_FOR)
    assert claim(second) is not None
    assert set(HookCall.objects.values_list("slot", flat=True)) == set(free[:2])
