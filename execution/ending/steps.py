"""Decide the next step of an occurrence from its runs: release, cancel, or end. Pure (EXE-2, EXE-3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from punctual.jobs.config.choices import FailureStrategy
from punctual.occurrences.states import OccurrenceState, RunState

FAILED = (RunState.DLQ, RunState.FAILED)


@dataclass(frozen=True)
class RunFacts:
    id: UUID
    position: int
    state: RunState
    held_back: bool  # waits for its predecessors
    strategy: FailureStrategy

    @property
    def open(self) -> bool:
        return self.state not in (RunState.SUCCESS, RunState.DLQ, RunState.CANCELED)

    @property
    def tolerant(self) -> bool:
        """Its failure cancels no other run, and no other failure cancels it: clean-up work."""
        return self.strategy is FailureStrategy.CONTINUE


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
