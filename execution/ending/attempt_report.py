"""One attempt's result, and the new values of its run that follow from it. Pure.

The same columns are written for every outcome, in one statement (`report`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

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
from punctual.jobs.config.retry import Retry
from punctual.jobs.ids import attempt_id
from punctual.occurrences.engines.contract import ClaimedRun
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
UNCHANGED: Mapping[str, Any] = dict.fromkeys(("available_at", "reason", "error", "fingerprint"))
SUCCEEDED: Mapping[str, Any] = {
    **UNCHANGED,
    "state": RunState.SUCCESS,
    "final": True,
    "snoozed": 0,
    "error": "",
}


class Begun(NamedTuple):
    """An attempt that has begun and may not be a row yet."""

    run: UUID
    attempt: UUID
    number: int
    token: UUID
    worker: str
    started_at: datetime


class AttemptFacts(NamedTuple):
    """An attempt that is over, as the report of its occurrence lists it."""

    state: str
    started_at: datetime
    finished_at: datetime | None
    error: str


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
    job: str = ""  # unknown to a process that reports for another


def report_of_row(run: TaskRun, token: UUID, result: Result) -> Report:
    """For a process that is gone: only its rows are known.

    Of an attempt that is not a row yet, only the time of the claim is known.
    """
    recorded = run.state == RunState.RUNNING
    started_at = (run.started_at if recorded else run.heartbeat_at) or run.occurrence.run_at
    number = run.attempts_made - recorded
    begun = Begun(run.id, attempt_id(run.id, number), number, token, run.claimed_by, started_at)
    return Report(begun, run.occurrence_id, run.task.name, run.policy, run.snoozes, result, recorded)


def run_values(item: Report, now: datetime) -> Mapping[str, Any]:
    """The new columns of the run; None: as they are."""
    return _values_of(item.result, _decide(item, now), now)


def _decide(item: Report, now: datetime) -> Outcome:
    failures = item.begun.number + 1 - item.snoozes
    retry = Retry.load(item.policy["retry"])
    return decide(item.result, retry, failures=failures, seed=item.begun.run, now=now)


def _values_of(result: Result, outcome: Outcome, now: datetime) -> Mapping[str, Any]:
    line = error_line(result)
    match outcome:
        case Succeed():
            return SUCCEEDED
        case Wait(at) if result.ending is Ending.SNOOZED:
            return _values(RunState.RETRY, available_at=at, snoozed=1)
        case Wait(at):
            return _values(RunState.RETRY, available_at=at, error=line)
        case Restart():
            return _values(RunState.SCHEDULED, available_at=now, snoozed=1)
        case Exhaust(reason):
            group = fingerprint(result)
            return _values(RunState.DLQ, final=True, error=line, reason=reason, fingerprint=group)
        case Stop(reason):
            return _values(RunState.CANCELED, final=True, error=line, reason=reason[:MAX_REASON_LENGTH])


def _values(state: RunState, *, final: bool = False, snoozed: int = 0, **columns: Any) -> dict[str, Any]:
    return {**UNCHANGED, "state": state, "final": final, "snoozed": snoozed, **columns}


def error_line(result: Result) -> str:
    return f"{result.error_type}: {result.error}" if result.error_type else result.error
