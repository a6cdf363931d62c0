"""Call the hooks that occurrences owe, one at a time, in the slot of this process (JOB-9).

The supervisor watches a hook as it watches a function: past its time limit it interrupts the hook, and then
kills the process. No claim of a run is held meanwhile: tasks are released when the start hooks are over, and
the completion hooks come after the report.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

from celery import current_task
from django.db import OperationalError

from punctual.conf import Settings, current_settings
from punctual.execution.broker.dispatch import dispatch
from punctual.execution.ending import hook_calls
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.settle import settle
from punctual.execution.models import HookCall, HookEvent
from punctual.execution.supervision.board import board
from punctual.execution.worker.attempt import call_function
from punctual.execution.worker.connection import user_code
from punctual.jobs.clock import Clock
from punctual.jobs.config.bounded_duration import format_duration
from punctual.jobs.database_errors import is_lock_conflict
from punctual.jobs.declaration.registry import registry
from punctual.jobs.redaction import hide_secret_args
from punctual.occurrences.engines.contract import Wait
from punctual.occurrences.models import Occurrence

# Writes a result, and waits for the database if it is away.
Record = Callable[[Callable[[], bool]], bool]

BUDGET = 1.0  # seconds that a process spends on calls that wait for a slot, beside its own
BATCH = 20


def call_hooks(ids: Collection[UUID], *, clock: Clock, record: Record) -> int:
    """Call the hooks of these occurrences, then others that wait; return how many were finalized.

    A call that gets no slot now stays in its row, for a process that is done with another one, or for the
    sweeper.
    """
    owing = Occurrence.objects.unsettled().filter(id__in=ids)
    if not hook_calls.register(owing, now=clock()):
        return hook_calls.finalize(ids, now=clock())
    own = HookCall.objects.waiting(clock()).filter(occurrence__in=ids)
    called = _call_each(own, clock=clock, record=record)
    finalized = _conclude(ids, clock=clock)
    if called:
        _call_others(clock, record)
    return finalized


def _call_others(clock: Clock, record: Record) -> None:
    """Calls that found no slot, except of hooks that hung."""
    end = time.monotonic() + BUDGET
    while time.monotonic() < end and not board.stopping:
        waiting = HookCall.objects.waiting(clock()).sound(clock())
        calls = waiting.order_by("-event", "created_at")[:BATCH]
        called = _call_each(calls, clock=clock, record=record, end=end)
        if not called:
            return
        _conclude({call.occurrence_id for call in called}, clock=clock)


def _call_each(
    calls: Iterable[HookCall], *, clock: Clock, record: Record, end: float | None = None
) -> list[HookCall]:
    called = []
    for call in calls:
        if end is not None and time.monotonic() >= end:
            break
        if _try(call, clock=clock, record=record):
            called.append(call)
    return called


def _try(call: HookCall, *, clock: Clock, record: Record) -> bool:
    settings, now = current_settings(), clock()
    hung = HookCall.objects.hanging(now).filter(id=call.id).exists()
    if hung and call.requested_at is None:
        return False  # the sweeper hands out such calls in turn; a new one must not overtake those that wait
    token = None
    if not board.stopping:
        token = hook_calls.claim(call, hung=hung, worker=_worker(), now=now, settings=settings)
    if token is None:
        hook_calls.hand_back(call)
        return False
    slot = board.own_slot()
    try:
        result = _call(call, token, settings)
        record(lambda: hook_calls.end_try(call.id, token, result, now=clock()))
    finally:
        slot.end()  # until here the supervisor reports the try if this process dies
    if hung and result.ending is Ending.SUCCESS:
        hook_calls.forget_hung(call)
    return True


def _call(call: HookCall, token: UUID, settings: Settings) -> Result:
    hook = registry.hook(call.hook)
    if hook is None:
        return Result(
            Ending.FAILED, error_type="Unresolved", error=f"no code registers the hook {call.hook!r}"
        )
    occurrence = Occurrence.objects.select_related("job").get(id=call.occurrence_id)
    argument = occurrence if call.event == HookEvent.ON_START else occurrence.report
    slot, limit = board.own_slot(), settings.hook_timeout
    slot.begin(
        run_id=call.id,
        occurrence_id=occurrence.id,
        token=token,
        limit=limit.total_seconds(),
        pid=os.getpid(),
        hook=True,
    )
    with hide_secret_args(occurrence.args, occurrence.config), user_code():
        result = call_function(hook, lambda: argument, slot)
    if result.ending is Ending.TIMEOUT:
        return replace(result, error=f"took longer than {format_duration(limit)}")
    return result


def _conclude(ids: Collection[UUID], *, clock: Clock) -> int:
    """Release the tasks that waited for start hooks, and finalize what has no hook left."""
    try:
        # Another process may hold it that has not seen the end of the hooks: do not leave it to that one.
        settled = settle(ids, now=clock(), wait=Wait.BRIEFLY)
    except OperationalError as error:
        if not is_lock_conflict(error):
            raise
        return 0  # an operator's session: the sweeper asks again
    if settled.released:
        dispatch(settled.released, now=clock())
    hook_calls.request_hooks(settled.with_hooks)
    return hook_calls.finalize(ids, now=clock())


def _worker() -> str:
    task: Any = current_task  # None outside of a message
    hostname = task.request.hostname if task else None
    return f"{hostname or 'local'}/{os.getpid()}"
