"""Call the user's function for a claim, and return its ending as a value.

No exception that the function raises leaves this module.
"""

import inspect
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import lru_cache, partial
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from billiard.common import terminate_handler_fired  # type: ignore[attr-defined]  # newer than its stubs

from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.supervision.board import Slot
from punctual.execution.supervision.channel import SlotChannel, store_progress
from punctual.execution.worker.claim import Claim
from punctual.execution.worker.event_loop import run_to_end
from punctual.execution.worker.failure import result_of_error, storable_text
from punctual.execution.worker.log_tail import LogLines, current_lines
from punctual.execution.worker.process_state import restore_process
from punctual.jobs.config.bounded_duration import duration
from punctual.jobs.context import Channel, Context, PreviousRun
from punctual.jobs.declaration.registry import TaskFunction
from punctual.jobs.events import IdsAdapter
from punctual.jobs.ids import format_id
from punctual.occurrences.engines.contract import ClaimedRun
from punctual.occurrences.models import TaskRun

NOT_CALLED = (GeneratorType, AsyncGeneratorType)  # the body of such a function has not run


def build_context(claim: Claim, channel: Channel) -> Context:
    run, occurrence = claim.run, claim.run.occurrence
    ids = log_ids(claim)
    span = _covered_span(run.covers) if run.covers else {}
    return Context(
        job=occurrence.job,
        task=run.task,
        occurrence_id=ids["occurrence"],
        run_id=ids["run"],
        attempt_id=format_id("attempt", claim.attempt_id),
        attempt=claim.number,
        scheduled_for=occurrence.scheduled_for,
        run_at=run.run_at,
        started_at=claim.started_at,
        deadline=run.deadline_at,
        metadata=run.metadata,
        args=run.args,
        logger=IdsAdapter(logging.getLogger(f"punctual.task.{occurrence.job}.{run.task}"), {"ids": ids}),
        cause=occurrence.cause,
        **span,
        channel=channel,
        read_previous_run=partial(previous_run, run),
    )


def previous_run(run: ClaimedRun) -> PreviousRun | None:
    """The run of the same task in the job's occurrence before this one, for `ctx.previous_run`."""
    earlier = TaskRun.objects.filter(
        task=run.task_id,
        occurrence__job=run.occurrence.job_id,
        occurrence__scheduled_for__lt=run.occurrence.scheduled_for,
    )
    row = earlier.select_related("occurrence").order_by("-occurrence__scheduled_for", "-id").first()
    if row is None:
        return None
    return PreviousRun(
        run_id=row.display_id,
        scheduled_for=row.occurrence.scheduled_for,
        state=str(row.state),
        finished_at=row.finished_at,
    )


def log_ids(claim: Claim) -> dict[str, Any]:
    """The ids that every log line of the attempt carries."""
    run = claim.run
    return {
        "job": run.occurrence.job,
        "task": run.task,
        "occurrence": format_id("occ", run.occurrence.id),
        "run": format_id("run", run.id),
        "attempt": claim.number,
    }


def _covered_span(covers: dict[str, Any]) -> dict[str, Any]:
    """The instants that a catch-up occurrence covers; of a long list only the newest are named."""
    return {
        "covers": tuple(datetime.fromisoformat(text) for text in covers["instants"]),
        "covers_from": datetime.fromisoformat(covers["from"]),
        "covers_count": covers.get("count", len(covers["instants"])),
    }


def perform(claim: Claim, function: TaskFunction | None, slot: Slot) -> Result:
    """Call the function under its time limit, in the slot of this process, where the supervisor sees it.

    Afterwards the supervisor still renews the lease, until the slot is freed: the result is not a row yet.
    """
    if function is None:
        message = f"no code registers the function {claim.run.function!r}"
        return Result(Ending.FAILED, error_type="Unresolved", error=message)
    run, occurrence = claim.run.id, claim.run.occurrence.id
    limit = _seconds(claim.run.policy["task_timeout"])
    slot.begin(
        run_id=run,
        occurrence_id=occurrence,
        token=claim.token,
        limit=limit,
        pid=os.getpid(),
        recorded=claim.recorded,
    )
    channel, lines = SlotChannel(slot, slot.serial), LogLines(partial(log_ids, claim))
    outer = current_lines.set(lines)
    try:
        result = call_function(function.call, partial(build_context, claim, channel), slot)
    finally:
        current_lines.reset(outer)
    if channel.progress is not None:
        store_progress(channel.progress, run=run, occurrence=occurrence, token=claim.token)
    return replace(result, log=storable_text(lines.text())) if lines.lines else result


def call_function(function: Callable[..., Any], build_argument: Callable[[], Any], slot: Slot) -> Result:
    """Call a function or a hook, whose slot has begun."""
    pid, recursion_limit = os.getpid(), sys.getrecursionlimit()
    try:
        try:
            value = function(build_argument())
            # Look at the value, not at the function: a plain decorator may hide an async function.
            if inspect.isawaitable(value):
                run_to_end(value)
            elif isinstance(value, NOT_CALLED):
                raise TypeError("it returned a generator, whose body did not run")  # noqa: TRY301 - as if it raised
            result = Result(Ending.SUCCESS)
        except BaseException as error:
            sys.setrecursionlimit(recursion_limit)  # the function may have left us hardly any
            if terminate_handler_fired() and not isinstance(error, Exception):
                raise  # not raised by the task: this process is being terminated
            # Still within the time limit: describing an error calls its code.
            result = result_of_error(error)
        finally:
            if os.getpid() != pid:
                os._exit(0)  # a child that the function has forked: its parent reports
            # Inside the outer try block: an interruption at this point must still become an ending.
            sys.setrecursionlimit(recursion_limit)
            restore_process()
            slot.returned()
    except Exception as error:  # noqa: BLE001 - interrupted while its error was described
        return result_of_error(error)
    return result


@lru_cache(maxsize=1024)  # most timeouts are the same
def _seconds(timeout: str) -> float:
    return duration(timeout).total_seconds()
