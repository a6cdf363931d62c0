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

from execution.claim import Claim, record
from execution.fingerprint import fingerprint
from execution.outcome import Ending, Exhaust, Outcome, Restart, Result, Stop, Succeed, Wait, decide
from execution.settle import Settled, lock, merged, roll_up, runs_of
from execution.summary import summary
from jobs.events import Event, emit, heard
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
    usual = _usual(reports) if not strict and transitions.swift_usable() else []
    if usual:
        closed = close_swiftly(usual, now=now)
        ended = {item.run.id for item in usual}
        others = [item for item in reports if item.run_id not in ended]
        return merged(closed, report(others, now=now)) if others else closed
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


def _record(claims: Sequence[Claim], now: datetime) -> None:
    if late := [item for item in claims if not item.recorded]:
        record(late, now=now)


def _usual(reports: Sequence[Report]) -> list[Claim]:
    """Successes that end their occurrences: nothing to decide, nothing to release."""
    return [item.claim for item in reports if item.claim and item.claim.alone and item.result == SUCCESS]


def close_swiftly(claims: Sequence[Claim], *, now: datetime) -> Settled:
    """The same as above, in one statement; whoever waits for the slots is let in after it."""
    items = [_completion(item, now) for item in claims]
    if len(items) == 1 and claims[0].recorded:
        closed = transitions.swift_complete_one(items[0], now=now)
    else:
        closed = transitions.swift_complete_many(items, now=now)
    ended = [item.occurrence for item in claims if item.run.occurrence_id in closed]
    for row in ended if heard(Event.OCCURRENCE_FINISHED) else ():
        emit(Event.OCCURRENCE_FINISHED, job=row.job.name, occurrence=row.shown_id, outcome=COMPLETED)
    released = _admitted([row for row in ended if closed[row.id]], now)
    if fenced := [item for item in claims if item.run.occurrence_id not in closed]:
        with transaction.atomic():
            _record(fenced, now)
        emit(Event.ATTEMPT_FENCED, count=len(fenced))
    owing = tuple(item.occurrence for item in items if item.occurrence in closed and not item.finalized)
    return Settled(released, tuple(row.id for row in ended), len(fenced), owing)


def _completion(item: Claim, now: datetime) -> Completion:
    run, occurrence = item.run, item.occurrence
    run.error = ""
    transitions.mirror(run, RunState.SUCCESS, now=now)
    return Completion(
        run.id,
        occurrence.id,
        item.token,
        item.attempt_id,
        item.number,
        item.began_at,
        not registry.has_hooks(occurrence.job.name),
        json.dumps(summary(occurrence, [run], COMPLETED, now)),
    )


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
