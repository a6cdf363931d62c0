"""Decide what follows from a result: the end of its run, and the next step of the occurrence. Pure.

A step releases runs, cancels runs, or ends the occurrence with a report. The report is JSON: it is stored,
and passed to on_complete (EXE-2, EXE-3, EXE-8).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from punctual.execution.ending.attempt_report import ATTEMPT_STATES, SUCCEEDED, Report, run_values
from punctual.execution.ending.outcome import Ending
from punctual.jobs.ids import format_id
from punctual.occurrences.engines.contract import ClaimedRun, OccurrenceFacts, RunEnd, RunFacts
from punctual.occurrences.states import RUN_FINAL, OccurrenceState, RunState

FAILED = (RunState.DLQ, RunState.FAILED)


@dataclass(frozen=True)
class Step:
    release: tuple[UUID, ...] = ()
    cancel: tuple[UUID, ...] = ()
    rest: bool = False  # all that is left waits: the slot is not needed
    outcome: OccurrenceState | None = None


def run_end(item: Report, *, now: datetime) -> RunEnd:
    """Decide what becomes of the run, and of its occurrence if it has no other run."""
    result, begun = item.result, item.begun
    # Nearly always a success: its policy need not be read.
    values = SUCCEEDED if result.ending is Ending.SUCCESS else run_values(item, now)
    return RunEnd(
        begun.run,
        item.occurrence_id,
        begun.token,
        **values,
        attempt=begun.attempt,
        number=begun.number,
        started_at=begun.started_at,
        recorded=item.recorded,
        attempt_state=ATTEMPT_STATES[result.ending],
        error_type=result.error_type,
        message=result.error if result.error_type else "",
        traceback=result.traceback,
        log=result.log,
        **(_closing(item, item.alone, values, now) if item.alone and values["final"] else {}),
        rests=item.alone is not None and values["state"] is RunState.RETRY,
    )


def _closing(item: Report, run: ClaimedRun, values: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """How the occurrence of a run without neighbours ends."""
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
        "finalized": not run.occurrence.config.get("on_complete"),
        "report": json.dumps(summary(run.occurrence, [facts], outcome, now)),
    }


def next_step(runs: Sequence[RunFacts], *, parallel: bool = False) -> Step:
    """`parallel`: runs that are held back, for the start hooks, are released together."""
    fatal = any(run.state in FAILED and not run.tolerant for run in runs)
    unfinished = [run for run in runs if run.state not in RUN_FINAL]
    cancel = tuple(run.id for run in unfinished if fatal and not run.tolerant)
    left = [run for run in unfinished if run.id not in cancel]
    if not left:
        return Step(cancel=cancel, outcome=_outcome(runs, fatal=fatal))
    if all(run.held_back for run in left):
        first = min(left, key=lambda run: run.position)
        return Step(release=tuple(run.id for run in left) if parallel else (first.id,), cancel=cancel)
    return Step(cancel=cancel, rest=all(run.waiting for run in left))


def _outcome(runs: Sequence[RunFacts], *, fatal: bool) -> OccurrenceState:
    if fatal:
        return OccurrenceState.FAILED
    if any(run.state in FAILED for run in runs):
        return OccurrenceState.COMPLETED_WITH_ERRORS
    if runs and all(run.state == RunState.CANCELED for run in runs):
        return OccurrenceState.CANCELED
    return OccurrenceState.COMPLETED


def summary(
    occurrence: OccurrenceFacts, runs: Sequence[RunFacts], outcome: OccurrenceState, now: datetime
) -> dict[str, Any]:
    return {
        "occurrence": format_id("occ", occurrence.id),
        "job": occurrence.job,
        "job_version": occurrence.job_version,
        "cause": str(occurrence.cause),
        "scheduled_for": occurrence.scheduled_for.isoformat(),
        "mode": occurrence.config.get("mode"),
        "failure_strategy": occurrence.config.get("failure_strategy"),
        "outcome": str(outcome),
        **_times(occurrence.started_at, now),
        "tasks": [_task(run) for run in sorted(runs, key=lambda run: run.position)],
    }


def _task(run: RunFacts) -> dict[str, Any]:
    return {
        "task": run.task,
        "status": str(run.state),
        "failure_strategy": run.policy.get("failure_strategy"),
        "attempts": run.attempts_made,
        **_times(run.started_at, run.finished_at),
        "error": run.error,
        "reason": run.reason,
    }


def _times(start: datetime | None, end: datetime | None) -> dict[str, Any]:
    return {
        "started_at": start.isoformat() if start else None,
        "finished_at": end.isoformat() if end else None,
        "duration": (end - start).total_seconds() if start and end else None,
    }
