"""Connect a running function with its supervisor: `ctx.canceled`, `ctx.stopping`, `ctx.heartbeat`."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connection

from punctual.execution.supervision.board import Slot, StopCause
from punctual.jobs.redaction import redact_values
from punctual.occurrences import transitions


@dataclass
class SlotChannel:
    """The function's end of its process's slot, for one attempt."""

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
            redacted = _storable(redact_values(progress))
            self.slot.note(redacted)
            self.progress = redacted

    @property
    def _stop_cause(self) -> StopCause:
        return self.slot.notice if self._is_current else StopCause.CANCELED

    @property
    def _is_current(self) -> bool:
        return self.slot.serial == self.serial and self.slot.active


def _storable(value: Any) -> Any:
    """Escape NUL and lone surrogates, which a database refuses."""
    if isinstance(value, str):
        return value.replace("\0", "\\x00").encode(errors="backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_storable(key): _storable(inner) for key, inner in value.items()}
    return [_storable(inner) for inner in value] if isinstance(value, list | tuple) else value


def store_progress(progress: object, *, run: UUID, occurrence: UUID, token: UUID) -> None:
    """Store the last progress of a function that has returned: the supervisor may not have stored it yet."""
    # The function may have left a broken transaction behind; its own error is the one to report.
    with suppress(DatabaseError):
        if connection.in_atomic_block:
            # A transactional function ends in this transaction: lock the occurrence before its run.
            transitions.lock_occurrences([occurrence])
        transitions.note_progress({run: progress}, tokens={run: token})
