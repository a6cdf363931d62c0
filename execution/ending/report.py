"""Write the results of attempts, and take the next step of their occurrences.

One statement ends the runs of a report and their attempts, whatever the outcomes, and closes the occurrences
that have no other run. A run with neighbours ends first and looks afterwards whether a step is due: most are
not the last. Only a final failure locks its occurrence beforehand, because it cancels its neighbours.

A result whose token is no longer the run's changes nothing: the lease expired, or the run was canceled, and
what happened since stands.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from punctual.execution.ending.fingerprint import fingerprint
from punctual.execution.ending.outcome import (
    Ending,
    Exhaust,
    Outcome,
    Restart,
    Result,
    Stop,
    Succeed,
    Wait,
    decide,
)
from punctual.execution.ending.settle import Settled, admit_after, combine, note_finished, settle
from punctual.execution.ending.steps import next_step
from punctual.execution.ending.summary import summary
from punctual.execution.worker.claim import Begun, Claim, record_attempts
from punctual.jobs.config.retry import Retry
from punctual.jobs.declaration.registry import registry
from punctual.jobs.events import Event, emit
from punctual.jobs.ids import format_id
from punctual.occurrences import transitions
from punctual.occurrences.engines.contract import ClaimedRun, RunEnd, RunFacts
from punctual.occurrences.ids import attempt_id
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import AttemptState, RunState

ATTEMPT_STATES = {
    Ending.SUCCESS: AttemptState.SUCCESS,
    Ending.FAILED: AttemptState.FAILED,
    Ending.FATAL: AttemptState.FAILED,
    Ending.TIMEOUT: AttemptState.TIMEOUT,
    Ending.LOST: AttemptState.LOST,
    Ending.CANCELED: AttemptState.CANCELED,
    Ending.SNOOZED: AttemptState.SNOOZED,
    Ending.RELEASED: AttemptState.RELEASED,
    Ending.UNSURE: AttemptState.LOST,
}
MAX_REASON_LENGTH = 200


@dataclass(frozen=True)
class Report:
    """One attempt's result, with the claim it was made under."""

    begun: Begun
    occurrence_id: UUID
    task: str
    policy: Mapping[str, Any]
    snoozes: int
    result: Result
    recorded: bool = True  # the attempt is a row
    alone: ClaimedRun | None = None  # the run, if it is known to be the only one of its occurrence


def report_of_claim(claim: Claim, result: Result) -> Report:
    run = claim.run
    return Report(
        claim.begun,
        run.occurrence.id,
        run.task,
        run.policy,
        run.snoozes,
        result,
        claim.recorded,
        run if run.alone else None,
    )


def report_of_row(run: TaskRun, token: UUID, result: Result) -> Report:
    """For a process that is gone: only its rows are known.

    Of an attempt that is not a row yet, only the time of the claim is known.
    """
    recorded = run.state == RunState.RUNNING
    started_at = (run.started_at if recorded else run.heartbeat_at) or run.occurrence.run_at
    begun = Begun(run.id, run.attempts_made - recorded, token, run.claimed_by, started_at)
    return Report(begun, run.occurrence_id, run.task.name, run.policy, run.snoozes, result, recorded)


class FencedError(Exception):
    """The claim was lost: the effects of a transactional task must be rolled back."""


@dataclass(frozen=True)
class EndedRuns:
    """What was written, and what is left to do after the commit."""

    settled: Settled = Settled()
    occurrences: Collection[UUID] = ()  # where a next step may be due
    awaited: Sequence[ClaimedRun] = ()  # closed with their occurrences, for whose slots others may wait
    lost: Sequence[Begun] = field(default_factory=list)  # begun, not recorded, and no longer held


def report(reports: Sequence[Report], *, now: datetime) -> Settled:
    return take_next_steps(end_runs(reports, now=now), now=now)


def end_runs(reports: Sequence[Report], *, now: datetime, strict: bool = False) -> EndedRuns:
    """Write results. `strict` raises FencedError instead of ignoring a late result."""
    outcomes = [_decide(item, now) for item in reports]
    ends = [_run_end(item, outcome, now) for item, outcome in zip(reports, outcomes, strict=True)]
    failed = {end.occurrence for end in ends if end.state is RunState.DLQ and end.outcome is None}
    with transaction.atomic() if failed else nullcontext():
        transitions.lock_occurrences(failed)
        ended = transitions.end(ends, now=now)
        settled = settle(failed, now=now) if failed else Settled()
    late = [item for item in reports if item.begun.run not in ended.runs]
    if late and strict:
        raise FencedError
    _emit_events([item for item in reports if item.begun.run in ended.runs], len(late))
    closed = [item.alone for item in reports if item.alone and item.occurrence_id in ended.closed]
    owing = [run.occurrence.id for run in closed if registry.has_complete_hooks(run.occurrence.job)]
    for run in closed:
        note_finished(run.occurrence, next(end.outcome for end in ends if end.run == run.id))
    restarted = [end.run for end in ends if end.state is RunState.SCHEDULED and end.run in ended.runs]
    own = Settled(tuple(restarted), tuple(run.occurrence.id for run in closed), len(late), tuple(owing))
    # Also those of late results: this may be the second try of a report whose connection broke.
    open_ = {item.occurrence_id for item in reports} - failed - ended.closed.keys()
    return EndedRuns(
        combine(own, settled),
        open_ - {end.occurrence for end in ends if not end.final and end.run in ended.runs},
        [run for run in closed if ended.closed[run.occurrence.id]],
        [item.begun for item in late if not item.recorded],
    )


def take_next_steps(ended: EndedRuns, *, now: datetime) -> Settled:
    """Call after the commit of the end: of two runs that end last, the later one sees the other."""
    settled = ended.settled
    if due := transitions.step_due(ended.occurrences):
        settled = combine(settled, settle(due, now=now))
    if ended.awaited:
        released = admit_after([run.occurrence for run in ended.awaited], now=now)
        settled = replace(settled, released=(*settled.released, *released))
    if ended.lost:
        with transaction.atomic():
            record_attempts(ended.lost, now=now)
    return settled


def _decide(item: Report, now: datetime) -> Outcome:
    if item.result.ending is Ending.SUCCESS:
        return Succeed()
    failures = item.begun.number + 1 - item.snoozes
    retry = Retry.load(item.policy["retry"])
    return decide(item.result, retry, failures=failures, seed=item.begun.run, now=now)


def _run_end(item: Report, outcome: Outcome, now: datetime) -> RunEnd:
    result, begun = item.result, item.begun
    values = _run_values(result, outcome, now)
    return RunEnd(
        begun.run,
        item.occurrence_id,
        begun.token,
        **values,
        attempt=attempt_id(begun.run, begun.number),
        number=begun.number,
        started_at=begun.started_at,
        recorded=item.recorded,
        attempt_state=ATTEMPT_STATES[result.ending],
        error_type=result.error_type,
        message=result.error if result.error_type else "",
        traceback=result.traceback,
        log=result.log,
        **_closing(item, values, now),
    )


def _run_values(result: Result, outcome: Outcome, now: datetime) -> dict[str, Any]:
    """The new columns of the run; None: as they are."""
    values: dict[str, Any] = dict.fromkeys(("available_at", "reason", "error", "fingerprint"))
    line = error_line(result)
    match outcome:
        case Succeed():
            return values | {"state": RunState.SUCCESS, "final": True, "snoozed": 0, "error": ""}
        case Wait(at):
            snoozed = result.ending is Ending.SNOOZED
            error = None if snoozed else line
            return values | {
                "state": RunState.RETRY,
                "final": False,
                "snoozed": int(snoozed),
                "available_at": at,
                "error": error,
            }
        case Restart():
            return values | {
                "state": RunState.SCHEDULED,
                "final": False,
                "snoozed": 1,
                "available_at": now,
            }
        case Exhaust(reason):
            print_ = fingerprint(result)
            values |= {"state": RunState.DLQ, "reason": reason, "fingerprint": print_}
        case Stop(reason):
            values |= {"state": RunState.CANCELED, "reason": reason[:MAX_REASON_LENGTH]}
    return values | {"final": True, "snoozed": 0, "error": line}


def _closing(item: Report, values: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """How the occurrence of a run without neighbours ends."""
    run = item.alone
    if run is None or not values["final"]:
        return {}
    facts = RunFacts(
        run.id,
        item.occurrence_id,
        run.task,
        run.position,
        values["state"],
        values["reason"] or run.reason,
        run.policy,
        item.begun.number + 1,
        item.begun.started_at,
        now,
        values["error"],
    )
    outcome = next_step([facts]).outcome
    if outcome is None:
        return {}
    return {
        "outcome": outcome,
        "finalized": not registry.has_complete_hooks(run.occurrence.job),
        "report": json.dumps(summary(run.occurrence, [facts], outcome, now)),
    }


def _emit_events(written: Sequence[Report], fenced: int) -> None:
    for item in written:
        if item.result.error_type:
            ids = {
                "task": item.task,
                "run": format_id("run", item.begun.run),
                "attempt": item.begun.number,
            }
            emit(Event.ATTEMPT_FAILED, **ids, ending=item.result.ending, error=error_line(item.result))
    if fenced:
        emit(Event.ATTEMPT_FENCED, count=fenced)


def error_line(result: Result) -> str:
    return f"{result.error_type}: {result.error}" if result.error_type else result.error
