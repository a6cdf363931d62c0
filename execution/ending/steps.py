"""Decide the next step of an occurrence from its runs: release, cancel, or end. Pure (EXE-2, EXE-3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from punctual.occurrences.engines.contract import RunFacts
from punctual.occurrences.states import OccurrenceState, RunState

FAILED = (RunState.DLQ, RunState.FAILED)


@dataclass(frozen=True)
class Step:
    release: tuple[UUID, ...] = ()
    cancel: tuple[UUID, ...] = ()
    outcome: OccurrenceState | None = None


def next_step(runs: Sequence[RunFacts]) -> Step:
    fatal = any(run.state in FAILED and not run.tolerant for run in runs)
    cancel = tuple(run.id for run in runs if run.open and fatal and not run.tolerant)
    left = [run for run in runs if run.open and run.id not in cancel]
    if not left:
        return Step(cancel=cancel, outcome=_outcome(runs, fatal=fatal))
    if all(run.held_back for run in left):
        first = min(left, key=lambda run: run.position)
        return Step(release=(first.id,), cancel=cancel)
    return Step(cancel=cancel)


def _outcome(runs: Sequence[RunFacts], *, fatal: bool) -> OccurrenceState:
    if fatal:
        return OccurrenceState.FAILED
    if any(run.state in FAILED for run in runs):
        return OccurrenceState.COMPLETED_WITH_ERRORS
    if runs and all(run.state == RunState.CANCELED for run in runs):
        return OccurrenceState.CANCELED
    return OccurrenceState.COMPLETED
