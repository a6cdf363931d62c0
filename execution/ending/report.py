"""Write the results of attempts together with the roll-up of their occurrences, in one transaction.

A result whose token is no longer the run's changes nothing: the lease expired, or the run was canceled, and
what happened since stands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from punctual.execution.ending.settle import Settled, combine, lock_occurrences, read_runs, roll_up
from punctual.execution.ending.successes import Success, succeed
from punctual.execution.worker.claim import Claim, record_attempts
from punctual.jobs.config.retry import Retry
from punctual.jobs.events import Event, emit
from punctual.occurrences import transitions
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


@dataclass(frozen=True)
class Report:
    """One attempt's result, with the token its claim was given."""

    run_id: UUID
    occurrence_id: UUID
    token: UUID
    result: Result
    claim: Claim | None = None  # None if only its row is known


class FencedError(Exception):
    """The claim was lost: the effects of a transactional task must be rolled back."""


def report(reports: Sequence[Report], *, now: datetime, strict: bool = False) -> Settled:
    """Write results and roll up. `strict` raises FencedError instead of ignoring a late result."""
    plain = _plain(reports) if not strict and transitions.swift_usable() else {}
    if plain:
        ended = succeed([*plain.values()], now=now)
        others = [item for item in reports if item.run_id not in plain]
        return combine(ended, report(others, now=now)) if others else ended
    with transaction.atomic():
        occurrences = lock_occurrences({item.occurrence_id for item in reports})
        _record_attempts([item.claim for item in reports if item.claim], now)
        runs = read_runs(occurrences)
        valid = _unfenced(reports, runs)
        fenced = len(reports) - len(valid)
        if fenced and strict:
            raise FencedError
        restarted = _write(valid, now)
        settled = roll_up(occurrences, runs, now=now)
    if fenced:
        emit(Event.ATTEMPT_FENCED, count=fenced)
    return replace(settled, fenced=fenced, released=(*restarted, *settled.released))


def _plain(reports: Sequence[Report]) -> dict[UUID, Success]:
    """Successes, where there is nothing to decide."""
    return {
        item.run_id: Success(item.claim, item.result.log)
        for item in reports
        if item.claim and item.result.ending is Ending.SUCCESS
    }


def _record_attempts(claims: Sequence[Claim], now: datetime) -> None:
    if unrecorded := [item for item in claims if not item.recorded]:
        record_attempts(unrecorded, now=now)


def _unfenced(reports: Sequence[Report], runs: list[TaskRun]) -> dict[TaskRun, Result]:
    running = {run.id: run for run in runs if run.state == RunState.RUNNING}
    return {
        running[item.run_id]: item.result
        for item in reports
        if item.run_id in running and running[item.run_id].claim_token == item.token
    }


def _write(results: Mapping[TaskRun, Result], now: datetime) -> list[UUID]:
    """Write the outcomes, and return the runs to be sent again at once."""
    outcomes = {run: _decide(run, result, now) for run, result in results.items()}
    _write_attempts(results, now)
    transitions.succeed([run.id for run in _of_kind(outcomes, Succeed)], now=now)
    waits = _of_kind(outcomes, Wait)
    errors = {run.id: _error_line(results[run]) for run in results}
    snoozed = {run for run in waits if results[run].ending is Ending.SNOOZED}
    transitions.snooze({run.id: waits[run].at for run in snoozed})
    retried = {run.id: waits[run].at for run in waits if run not in snoozed}
    transitions.retry(retried, errors={id_: errors[id_] for id_ in retried})
    for reason in sorted({item.reason for item in _of_kind(outcomes, Exhaust).values()}):
        runs = [run for run, item in _of_kind(outcomes, Exhaust).items() if item.reason == reason]
        fingerprints = {run.id: fingerprint(results[run]) for run in runs}
        transitions.park(
            {run.id: errors[run.id] for run in runs}, fingerprints=fingerprints, reason=reason, now=now
        )
    stops = {run.id: stop.reason[:200] for run, stop in _of_kind(outcomes, Stop).items()}
    for reason in sorted(set(stops.values())):
        transitions.cancel(
            [id_ for id_, stop_reason in stops.items() if stop_reason == reason], reason=reason, now=now
        )
    restarted = [run.id for run in _of_kind(outcomes, Restart)]
    transitions.restart(restarted, now=now)
    for run, outcome in outcomes.items():
        _mirror(run, outcome, results[run], now)
    return restarted


def _decide(run: TaskRun, result: Result, now: datetime) -> Outcome:
    retry = Retry.load(run.policy["retry"])
    return decide(result, retry, failures=run.attempts_made - run.snoozes, seed=run.id, now=now)


def _write_attempts(results: Mapping[TaskRun, Result], now: datetime) -> None:
    for ending in sorted({result.ending for result in results.values()}):
        group = {run.id: result for run, result in results.items() if result.ending is ending}
        failed = {id_: result for id_, result in group.items() if result.error_type}
        errors = {
            id_: {"error_type": item.error_type, "error": item.error, "traceback": item.traceback}
            for id_, item in failed.items()
        }
        logs = {id_: result.log for id_, result in group.items() if result.log}
        transitions.end_attempts(list(group), ATTEMPT_STATES[ending], now=now, errors=errors, logs=logs)
    for run, result in results.items():
        if result.error_type:
            ids = {"task": run.task.name, "run": run.display_id, "attempt": run.attempts_made - 1}
            emit(Event.ATTEMPT_FAILED, **ids, ending=result.ending, error=_error_line(result))


def _of_kind(outcomes: Mapping[TaskRun, Outcome], kind: type[Any]) -> dict[TaskRun, Any]:
    return {run: outcome for run, outcome in outcomes.items() if isinstance(outcome, kind)}


def _mirror(run: TaskRun, outcome: Outcome, result: Result, now: datetime) -> None:
    """Set the fields of the run as the UPDATE left them, so that the roll-up need not read it again."""
    run.error = _error_line(result)
    match outcome:
        case Succeed():
            transitions.mirror(run, RunState.SUCCESS, now=now)
        case Wait():
            transitions.mirror(run, RunState.RETRY)
        case Restart():
            transitions.mirror(run, RunState.SCHEDULED)
        case Exhaust(reason):
            transitions.mirror(run, RunState.DLQ, now=now, reason=reason)
        case Stop(reason):
            transitions.mirror(run, RunState.CANCELED, now=now, reason=reason)


def _error_line(result: Result) -> str:
    return f"{result.error_type}: {result.error}" if result.error_type else result.error
