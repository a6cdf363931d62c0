"""Build the execution report of an occurrence: JSON, stored, and passed to on_complete (EXE-8). Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from punctual.occurrences.engines.contract import OccurrenceFacts, RunFacts
from punctual.occurrences.states import OccurrenceState


def summary(
    occurrence: OccurrenceFacts, runs: Sequence[RunFacts], outcome: OccurrenceState, now: datetime
) -> dict[str, Any]:
    return {
        "occurrence": occurrence.display_id,
        "job": occurrence.job,
        "job_version": occurrence.job_version,
        "cause": str(occurrence.cause),
        "scheduled_for": occurrence.scheduled_for.isoformat(),
        "mode": occurrence.config.get("mode"),
        "failure_strategy": occurrence.config.get("failure_strategy"),
        "outcome": str(outcome),
        "started_at": _text(occurrence.started_at),
        "finished_at": now.isoformat(),
        "duration": _seconds(occurrence.started_at, now),
        "tasks": [_task(run) for run in sorted(runs, key=lambda run: run.position)],
    }


def _task(run: RunFacts) -> dict[str, Any]:
    return {
        "task": run.task,
        "status": str(run.state),
        "failure_strategy": run.policy.get("failure_strategy"),
        "attempts": run.attempts_made,
        "started_at": _text(run.started_at),
        "finished_at": _text(run.finished_at),
        "duration": _seconds(run.started_at, run.finished_at),
        "error": run.error,
        "reason": run.reason,
    }


def _text(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant else None


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return (end - start).total_seconds() if start and end else None
