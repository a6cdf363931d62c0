"""Results of attempts → rows, together with the roll-up, in one transaction.

A result whose token is no longer the run's changes nothing: the claim expired, or the run was
canceled, and what happened since stands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from execution.claim import Claim, record
from execution.fingerprint import fingerprint
from execution.outcome import Ending, Exhaust, Outcome, Restart, Result, Stop, Succeed, Wait, decide
from execution.settle import Settled, lock, merged, roll_up, runs_of
from execution.successes import Success, succeed
from jobs.events import Event, emit
from jobs.retry import Retry
from occurrences import transitions
from occurrences.models import TaskRun
from occurrences.states import AttemptState, RunState

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
    claim: Claim | None = None  # the claim itself, where it is at hand


class FencedError(Exception):
    """The claim was lost; a transactional task's effects must be rolled back."""


def report(reports: Sequence[Report], *, now: datetime, strict: bool = False) -> Settled:
    """Record results and roll up. `strict` raises FencedError instead of dropping a late result."""
    plain = _plain(reports) if not strict and transitions.swift_usable() else {}
    if plain:
        ended = succeed([*plain.values()], now=now)
        others = [item for item in reports if item.run_id not in plain]
        return merged(ended, report(others, now=now)) if others else ended
    with transaction.atomic():
        occurrences = lock({item.occurrence_id for item in reports})
        _record([item.claim for item in reports if item.claim], now)
        runs = runs_of(occurrences)
        valid = _valid(reports, runs)
        fenced = len(reports) - len(valid)
        if fenced and strict:
            raise FencedError
        restarted = _write(valid, now)
        settled = roll_up(occurrences, runs, now=now)
    if fenced:
        emit(Event.ATTEMPT_FENCED, count=fenced)
    return replace(settled, fenced=fenced, released=(*restarted, *settled.released))


def _plain(reports: Sequence[Report]) -> dict[UUID, Success]:
    """Successes: there is nothing to decide."""
    return {
        item.run_id: Success(item.claim, item.result.log)
        for item in reports
        if item.claim and item.result.ending is Ending.SUCCESS
    }


def _record(claims: Sequence[Claim], now: datetime) -> None:
    if late := [item for item in claims if not item.recorded]:
        record(late, now=now)


def _valid(reports: Sequence[Report], runs: list[TaskRun]) -> dict[TaskRun, Result]:
    running = {run.id: run for run in runs if run.state == RunState.RUNNING}
    return {
        running[item.run_id]: item.result
        for item in reports
        if item.run_id in running and running[item.run_id].claim_token == item.token
    }


def _write(results: Mapping[TaskRun, Result], now: datetime) -> list[UUID]:
    """Those to be sent again at once."""
    outcomes = {run: _decided(run, result, now) for run, result in results.items()}
    _write_attempts(results, now)
    transitions.succeed([run.id for run in _where(outcomes, Succeed)], now=now)
    waits = _where(outcomes, Wait)
    errors = {run.id: _line(results[run]) for run in results}
    snoozed = {run for run in waits if results[run].ending is Ending.SNOOZED}
    transitions.snooze({run.id: waits[run].at for run in snoozed})
    retried = {run.id: waits[run].at for run in waits if run not in snoozed}
    transitions.retry(retried, errors={id_: errors[id_] for id_ in retried})
    for reason in sorted({item.reason for item in _where(outcomes, Exhaust).values()}):
        runs = [run for run, item in _where(outcomes, Exhaust).items() if item.reason == reason]
        prints = {run.id: fingerprint(results[run]) for run in runs}
        transitions.park(
            {run.id: errors[run.id] for run in runs}, fingerprints=prints, reason=reason, now=now
        )
    stops = {run.id: stop.reason[:200] for run, stop in _where(outcomes, Stop).items()}
    for reason in sorted(set(stops.values())):
        transitions.cancel([id_ for id_, why in stops.items() if why == reason], reason=reason, now=now)
    restarted = [run.id for run in _where(outcomes, Restart)]
    transitions.restart(restarted, now=now)
    for run, outcome in outcomes.items():
        _mirror(run, outcome, results[run], now)
    return restarted


def _decided(run: TaskRun, result: Result, now: datetime) -> Outcome:
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
            ids = {"task": run.task.name, "run": run.shown_id, "attempt": run.attempts_made - 1}
            emit(Event.ATTEMPT_FAILED, **ids, ending=result.ending, error=_line(result))


def _where(outcomes: Mapping[TaskRun, Outcome], kind: type[Any]) -> dict[TaskRun, Any]:
    return {run: outcome for run, outcome in outcomes.items() if isinstance(outcome, kind)}


def _mirror(run: TaskRun, outcome: Outcome, result: Result, now: datetime) -> None:
    """The run as the UPDATE left it, so that the roll-up need not read it again."""
    run.error = _line(result)
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


def _line(result: Result) -> str:
    return f"{result.error_type}: {result.error}" if result.error_type else result.error
