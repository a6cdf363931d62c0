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

from punctual.execution.ending.attempt_report import (
    ATTEMPT_STATES,
    MAX_REASON_LENGTH,
    SUCCEEDED,
    AttemptFacts,
    Report,
    run_values,
)
from punctual.execution.ending.outcome import Ending
from punctual.jobs.ids import format_id
from punctual.occurrences.engines.contract import ClaimedRun, OccurrenceFacts, RunEnd, RunFacts
from punctual.occurrences.states import RUN_FINAL, OccurrenceState, Reason, RunState

FAILED = (RunState.DLQ, RunState.FAILED)


@dataclass(frozen=True)
class Step:
    release: tuple[UUID, ...] = ()
    cancel: tuple[UUID, ...] = ()
    cancel_reason: str = ""  # names the task that failed
    rest: bool = False  # all that is left waits: the slot is not needed
    outcome: OccurrenceState | None = None


def run_end(item: Report, *, now: datetime, earlier: Sequence[AttemptFacts] = ()) -> RunEnd:
    """Decide what becomes of the run, and of its occurrence if it has no other run.

    `earlier` are the attempts before this one, for the report of such an occurrence.
    """
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
        **(_closing(item, item.alone, values, earlier, now) if item.alone and values["final"] else {}),
        rests=item.alone is not None and values["state"] is RunState.RETRY,
    )


def _closing(
    item: Report, run: ClaimedRun, values: Mapping[str, Any], earlier: Sequence[AttemptFacts], now: datetime
) -> dict[str, Any]:
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
    state, error = ATTEMPT_STATES[item.result.ending], values["error"] or ""
    attempts = {run.id: [*earlier, AttemptFacts(state, item.begun.started_at, now, error)]}
    return {
        "outcome": outcome,
        "finalized": not run.occurrence.config.get("on_complete"),
        "report": json.dumps(summary(run.occurrence, [facts], outcome, now, attempts)),
    }


def next_step(runs: Sequence[RunFacts], *, parallel: bool = False) -> Step:
    """`parallel`: runs that are held back, for the start hooks, are released together."""
    failed = [run for run in runs if run.state in FAILED and not run.tolerant]
    unfinished = [run for run in runs if run.state not in RUN_FINAL]
    cancel = tuple(run.id for run in unfinished if failed and not run.tolerant)
    left = [run for run in unfinished if run.id not in cancel]
    reason = _cancel_reason(failed) if cancel else ""
    if not left:
        return Step(cancel=cancel, cancel_reason=reason, outcome=_outcome(runs, fatal=bool(failed)))
    if all(run.held_back for run in left):
        first = min(left, key=lambda run: run.position)
        release = tuple(run.id for run in left) if parallel else (first.id,)
        return Step(release=release, cancel=cancel, cancel_reason=reason)
    return Step(cancel=cancel, cancel_reason=reason, rest=all(run.waiting for run in left))


def _cancel_reason(failed: Sequence[RunFacts]) -> str:
    """Name the task that failed first."""
    first = min(failed, key=lambda run: (run.finished_at is None, run.finished_at, run.position))
    return f"{Reason.OTHER_TASK_FAILED}: {first.task}"[:MAX_REASON_LENGTH]


def _outcome(runs: Sequence[RunFacts], *, fatal: bool) -> OccurrenceState:
    if fatal:
        return OccurrenceState.FAILED
    if any(run.state in FAILED for run in runs):
        return OccurrenceState.COMPLETED_WITH_ERRORS
    if runs and all(run.state == RunState.CANCELED for run in runs):
        return OccurrenceState.CANCELED
    return OccurrenceState.COMPLETED


def summary(
    occurrence: OccurrenceFacts,
    runs: Sequence[RunFacts],
    outcome: OccurrenceState,
    now: datetime,
    attempts: Mapping[UUID, Sequence[AttemptFacts]],
) -> dict[str, Any]:
    """`attempts` are those of each run that has had one, in order."""
    start = occurrence.started_at
    ordered = sorted(runs, key=lambda run: run.position)
    return {
        "occurrence": format_id("occ", occurrence.id),
        "job": occurrence.job,
        "job_version": occurrence.job_version,
        "cause": str(occurrence.cause),
        "scheduled_for": occurrence.scheduled_for.isoformat(),
        "mode": occurrence.config.get("mode"),
        "failure_strategy": occurrence.config.get("failure_strategy"),
        "outcome": str(outcome),
        **_times(start, now),
        "tasks": [_task(run, attempts.get(run.id, ()), start) for run in ordered],
    }


def _task(run: RunFacts, attempts: Sequence[AttemptFacts], start: datetime | None) -> dict[str, Any]:
    """The times are from the start of the first attempt to the end of the last one."""
    ends = [start, *(attempt.finished_at for attempt in attempts)]
    _, _, culprit = run.reason.partition(f"{Reason.OTHER_TASK_FAILED}: ")
    return {
        "task": run.task,
        "status": str(run.state),
        "failure_strategy": run.policy.get("failure_strategy"),
        "attempts_made": run.attempts_made,
        **_times(attempts[0].started_at if attempts else run.started_at, run.finished_at),
        "error": run.error,
        "reason": run.reason,
        "canceled_by": culprit or None,
        "attempts": [
            {
                "status": str(attempt.state),
                **_times(attempt.started_at, attempt.finished_at),
                "waited": (attempt.started_at - before).total_seconds() if before else None,
                "error": attempt.error,
            }
            for before, attempt in zip(ends, attempts, strict=False)
        ],
    }


def _times(start: datetime | None, end: datetime | None) -> dict[str, Any]:
    return {
        "started_at": start.isoformat() if start else None,
        "finished_at": end.isoformat() if end else None,
        "duration": (end - start).total_seconds() if start and end else None,
    }
