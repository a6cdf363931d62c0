"""A claim → its function's slot, filled while the function runs; the line between it and its supervisor."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from django.db import DatabaseError

from execution.claim import Claim
from execution.slots import Slot, Why, board
from jobs.durations import duration
from jobs.secrecy import blotted
from occurrences import transitions


@dataclass
class Attendant:
    """What `ctx.canceled`, `ctx.stopping` and `ctx.heartbeat` speak through."""

    slot: Slot
    serial: int
    progress: object = None

    @property
    def canceled(self) -> bool:
        return self._told is Why.CANCELED

    @property
    def stopping(self) -> bool:
        return self._told is Why.STOPPING

    def note(self, progress: object) -> None:
        if self._current:  # a thread the function left behind speaks for nobody
            said = blotted(progress)
            self.slot.note(said)
            self.progress = said

    @property
    def _told(self) -> Why:
        return self.slot.told if self._current else Why.CANCELED

    @property
    def _current(self) -> bool:
        return self.slot.serial == self.serial and self.slot.active


@contextmanager
def attending(claim: Claim) -> Iterator[Attendant]:
    """From here on the supervisor counts the time; it still looks after the claim when the block is over,
    until its `attendance` ends, for the result is not yet a row."""
    slot = board.mine()
    slot.begin(
        run_id=claim.run.id,
        occurrence_id=claim.run.occurrence_id,
        token=claim.token,
        limit=duration(claim.run.policy["task_timeout"]).total_seconds(),
        pid=os.getpid(),
    )
    line = Attendant(slot, slot.serial)
    yield line
    over()
    if line.progress is not None:  # what was said last must not depend on the supervisor's rhythm
        _store(claim, line.progress)


def _store(claim: Claim, progress: object) -> None:
    # The function may have left a broken transaction behind; its own error is what shall be reported.
    with suppress(DatabaseError):
        transitions.note_progress({claim.run.id: progress}, tokens={claim.run.id: claim.token})


def over() -> None:
    """The function has ended, and cannot be interrupted any more."""
    slot = board.mine()
    if slot.active:
        slot.returned()


@contextmanager
def attendance() -> Iterator[None]:
    """Around the attempts of one message and their report. Whoever dies in here is noticed; whoever fails
    in here reports no more, and must not have its leases renewed."""
    try:
        yield
    except Exception:
        board.mine().end()
        raise
    board.mine().end()
