"""Occupy this process's slot while a function runs, so that the supervisor sees the attempt."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache

from django.db import DatabaseError, connection

from punctual.execution.supervision.board import Slot, StopCause, board
from punctual.execution.worker.claim import Claim
from punctual.jobs.config.bounded_duration import duration
from punctual.jobs.redaction import redact_values
from punctual.occurrences import transitions


@dataclass
class SlotChannel:
    """Connects `ctx.canceled`, `ctx.stopping` and `ctx.heartbeat` with the supervisor, through the slot."""

    slot: Slot
    serial: int
    progress: object = None

    @property
    def canceled(self) -> bool:
        return self._stop_cause is StopCause.CANCELED

    @property
    def stopping(self) -> bool:
        return self._stop_cause is StopCause.STOPPING

    def note(self, progress: object) -> None:
        if self._is_current:  # otherwise a thread that the function left behind calls this
            redacted = redact_values(progress)
            self.slot.note(redacted)
            self.progress = redacted

    @property
    def _stop_cause(self) -> StopCause:
        return self.slot.notice if self._is_current else StopCause.CANCELED

    @property
    def _is_current(self) -> bool:
        return self.slot.serial == self.serial and self.slot.active


@lru_cache(maxsize=1024)  # most timeouts are the same
def _seconds(timeout: str) -> float:
    return duration(timeout).total_seconds()


@contextmanager
def occupy(claim: Claim) -> Iterator[SlotChannel]:
    """Start the time limit of an attempt.

    After the block the supervisor still renews the lease, until `free_slot_at_end` frees the slot, because
    the result is not a row yet.
    """
    slot = board.own_slot()
    slot.begin(
        run_id=claim.run.id,
        occurrence_id=claim.run.occurrence.id,
        token=claim.token,
        limit=_seconds(claim.run.policy["task_timeout"]),
        pid=os.getpid(),
        recorded=claim.recorded,
    )
    channel = SlotChannel(slot, slot.serial)
    yield channel
    mark_returned()
    if channel.progress is not None:  # the supervisor may not have stored the last one yet
        _store_progress(claim, channel.progress)


def _store_progress(claim: Claim, progress: object) -> None:
    # The function may have left a broken transaction behind; its own error is the one to report.
    with suppress(DatabaseError):
        if connection.in_atomic_block:
            # A transactional function ends in this transaction: lock the occurrence before its run.
            transitions.lock_occurrences([claim.run.occurrence.id])
        transitions.note_progress({claim.run.id: progress}, tokens={claim.run.id: claim.token})


def mark_returned() -> None:
    """The function has ended, and cannot be interrupted any more."""
    slot = board.own_slot()
    if slot.active:
        slot.returned()


@contextmanager
def free_slot_at_end() -> Iterator[None]:
    """Surround the attempts of one message and their report.

    If the process dies inside the block, the supervisor sees the occupied slot and reports for it. If the
    block raises, its results will not be reported, and its leases must not be renewed.
    """
    try:
        yield
    except Exception:
        board.own_slot().end()
        raise
    board.own_slot().end()
