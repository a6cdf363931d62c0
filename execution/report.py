"""Results of attempts → rows, together with the roll-up, in one transaction.

A result whose token is no longer the run's changes nothing: the claim expired, or the run was
canceled, and what happened since stands.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from execution.fingerprint import fingerprint
from execution.outcome import Ending, Exhaust, Outcome, Restart, Result, Stop, Succeed, Wait, decide
from execution.settle import Settled, lock, merged, roll_up, runs_of
from execution.summary import summary
from jobs.events import Event, emit
from jobs.registry import registry
from jobs.retry import Retry
from occurrences import transitions
from occurrences.models import Occurrence, TaskRun
from occurrences.states import AttemptState, OccurrenceState, RunState
from occurrences.swift import Completion
from occurrences.waiting import admit_waiting

SUCCESS, COMPLETED = Result(Ending.SUCCESS), OccurrenceState.COMPLETED

ATTEMPT_STATES = {
    Ending.SUCCESS: AttemptState.SUCCESS,
    Ending.FAILED: AttemptState.FAILED,
    Ending.FATAL: AttemptState.FAILED,
    Ending.TIMEOUT: AttemptState.TIMEOUT,
    Ending.LOST: AttemptState.LOST,
    Ending.CANCELED: AttemptState.CANCELED,
    Ending.SNOOZED: AttemptState.SNOOZED,
    Ending.RELEASED: AttemptState.RELEASED,
}


@dataclass(frozen=True)
class Report:
    """One attempt's result, with the token its claim was given."""

    run_id: UUID
    occurrence_id: UUID
    token: UUID
    result: Result
    only: TaskRun | None = None  # the run itself, if it is known to be its occurrence's only one


class FencedError(Exception):
    """The claim was lost; a transactional task's effects must be rolled back."""


def report(reports: Sequence[Report], *, now: datetime, strict: bool = False) -> Settled:
    """Record results and roll up. `strict` raises FencedError instead of dropping a late result."""
    usual = [item for item in reports if _usual(item)] if not strict and transitions.swift_usable() else []
    if usual:
        closed = close_swiftly(usual, now=now)
        others = [item for item in reports if not _usual(item)]
        return merged(closed, report(others, now=now)) if others else closed
    with transaction.atomic():
        occurrences = lock({item.occurrence_id for item in reports})
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


def _usual(item: Report) -> bool:
    """A success that ends its occurrence: nothing to decide, nothing to release."""
    return item.only is not None and item.result == SUCCESS


def close_swiftly(reports: Sequence[Report], *, now: datetime) -> Settled:
    """The same as below, in one statement; whoever waits for the slots is let in after it."""
    runs = {item.run_id: _succeeded(item, now) for item in reports}
    items = [
        Completion(
            item.run_id,
            item.occurrence_id,
            item.token,
            json.dumps(summary(run.occurrence, [run], COMPLETED, now)),
            not registry.has_hooks(run.occurrence.job.name),
        )
        for item, run in zip(reports, runs.values(), strict=True)
    ]
    closed = transitions.swift_complete(items, now=now)
    ended = [run.occurrence for run in runs.values() if run.occurrence_id in closed]
    for row in ended:
        emit(Event.OCCURRENCE_FINISHED, job=row.job.name, occurrence=row.shown_id, outcome=COMPLETED)
    released = _admitted([row for row in ended if closed[row.id]], now)
    if fenced := len(reports) - len(closed):
        emit(Event.ATTEMPT_FENCED, count=fenced)
    owing = tuple(item.occurrence for item in items if item.occurrence in closed and not item.finalized)
    return Settled(released, tuple(row.id for row in ended), fenced, owing)


def _succeeded(item: Report, now: datetime) -> TaskRun:
    run = item.only
    assert run is not None  # noqa: S101 - `_usual` has looked
    run.error = ""
    transitions.mirror(run, RunState.SUCCESS, now=now)
    return run


def _admitted(ended: Sequence[Occurrence], now: datetime) -> tuple[UUID, ...]:
    """A worker that dies before this leaves it to the sweeper, as it does for slots of the dead."""
    if not ended:
        return ()
    with transaction.atomic():
        return admit_waiting(jobs={row.job_id for row in ended}, pools={row.pool for row in ended}, now=now)


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
            emit(Event.ATTEMPT_FAILED, run=run.shown_id, ending=result.ending, error=_line(result))


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
