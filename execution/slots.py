"""What a worker's processes and its supervisor tell each other, in memory they share.

A process that is about to call a function writes into its slot which run it is, under which token,
and until when it may take; the supervisor (execution/supervisor.py, in the worker's parent process)
reads that. It writes back that the run is no longer wanted, or that the worker is to stop. Neither
waits for the other, and a short task costs nothing but the write.

Every field has one writer. Whether a slot is in use is written last when an attempt begins, and `serial`
names the attempt, so that neither side takes what belongs to one for another's.
"""

import json
import mmap
import os
import signal
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import count
from threading import local
from time import monotonic, monotonic_ns
from typing import Any
from uuid import UUID

from billiard import current_process

INTERRUPT_SIGNAL = signal.SIGUSR2  # Celery has a use of its own for SIGUSR1
SLOTS = 1024  # more processes or threads than that share slots, and lose supervision, not their leases
# A process that died leaves its slot to be read. Its successor has the same index in the pool, and takes
# the next of these.
SPARE = 4
SIZE = 12288
FACTS = struct.Struct("<IQ16s16s16sdd")  # pid, serial, run, occurrence, token, since, limit
TOLD = struct.Struct("<QB")  # serial, why
INTERRUPT = struct.Struct("<QB")  # serial, why
TEXT = struct.Struct("<QI")  # serial, length; then the text
BEGUN = struct.Struct("<16sI")  # token, how many; then the runs that have begun under it, in their order
FACTS_AT, TOLD_AT, INTERRUPT_AT, PROGRESS_AT, LOG_AT, BEGUN_AT = 0, 128, 160, 192, 2048, 8192
HEAD = struct.Struct("<IB")  # the supervisor's process, whether it was told to stop
HEAD_AT = SLOTS + SLOTS * SIZE
IDLE, RUNNING, REPORTING = range(3)
LONGEST_PROGRESS = LOG_AT - PROGRESS_AT - TEXT.size
LONGEST_LOG = BEGUN_AT - LOG_AT - TEXT.size
MOST_BEGUN = (SIZE - BEGUN_AT - BEGUN.size) // 16  # several times what a message carries


class Why(IntEnum):
    """Why an attempt is to end before its function has."""

    NONE = 0
    CANCELED = 1  # the run is no longer wanted, or no longer this worker's
    STOPPING = 2  # the worker was told to stop
    TIMEOUT = 3


@dataclass(frozen=True)
class Facts:
    """An attempt under way, as its process wrote it down. Times are the machine's monotonic clock."""

    slot: int
    pid: int
    serial: int
    run_id: UUID
    occurrence_id: UUID
    token: UUID
    since: float
    limit: float
    running: bool = True  # False: its function is over, its result is being written


class Slot:
    """A process's own; in a pool of threads, a thread's own."""

    def __init__(self, memory: mmap.mmap, number: int) -> None:
        self._memory, self._start = memory, SLOTS + number * SIZE  # behind the table of states
        self.number, self.serial = number, 0

    # -- the process that runs the function ---------------------------------------------------------

    def begin(self, *, run_id: UUID, occurrence_id: UUID, token: UUID, limit: float, pid: int) -> None:
        # Of all processes no two: the slot's number is part of it, and a slot has one process at a time.
        self.serial = max(self.serial + SLOTS, monotonic_ns() // SLOTS * SLOTS + self.number)
        now = monotonic()
        ids = run_id.bytes, occurrence_id.bytes, token.bytes
        FACTS.pack_into(self._memory, self._start + FACTS_AT, pid, self.serial, *ids, now, now + limit)
        self._note_begun(token.bytes, run_id.bytes)
        self._memory[self.number] = RUNNING

    def _note_begun(self, token: bytes, run: bytes) -> None:
        """Of a bundle those that have begun are not yet rows. The count comes last: a run whose process
        died just here has not begun."""
        start = self._start + BEGUN_AT
        held, count = BEGUN.unpack_from(self._memory, start)
        if held != token:
            count = 0
            BEGUN.pack_into(self._memory, start, token, 0)
        place = start + BEGUN.size + 16 * min(count, MOST_BEGUN - 1)
        self._memory[place : place + 16] = run
        BEGUN.pack_into(self._memory, start, token, min(count + 1, MOST_BEGUN))

    def returned(self) -> None:
        """The function is over, its result is not yet a row: no limit applies any more."""
        self._memory[self.number] = REPORTING

    def end(self) -> None:
        self._memory[self.number] = IDLE

    @property
    def told(self) -> Why:
        serial, why = TOLD.unpack_from(self._memory, self._start + TOLD_AT)
        return Why(why) if serial == self.serial else Why.NONE

    @property
    def interruption(self) -> Why:
        """Why the function is to be interrupted, while it runs."""
        serial, why = INTERRUPT.unpack_from(self._memory, self._start + INTERRUPT_AT)
        running = self._memory[self.number] == RUNNING
        return Why(why) if running and serial == self.serial else Why.NONE

    def note(self, progress: object) -> None:
        """Something JSON can say, for the supervisor to store; what was there before is overwritten."""
        text = json.dumps(progress).encode()
        if len(text) > LONGEST_PROGRESS:
            raise ValueError(f"progress takes {len(text)} bytes; at most {LONGEST_PROGRESS} are kept")
        self._put(PROGRESS_AT, text)

    def log(self, text: bytes) -> None:
        """The last lines its function has logged, should it not live to report them."""
        self._put(LOG_AT, text[-LONGEST_LOG:])

    def _put(self, offset: int, text: bytes) -> None:
        start = self._start + offset
        TEXT.pack_into(self._memory, start, 0, 0)  # whoever reads now sees none rather than half of it
        self._memory[start + TEXT.size : start + TEXT.size + len(text)] = text
        TEXT.pack_into(self._memory, start, self.serial, len(text))

    @property
    def active(self) -> bool:
        return self._memory[self.number] != IDLE

    # -- the supervisor -----------------------------------------------------------------------------

    def facts(self) -> Facts | None:
        """None while idle, or while a process is just writing: two reads that agree are whole."""
        found = self._facts()
        return found if self.active and found == self._facts() else None

    def _facts(self) -> Facts:
        pid, serial, run, occurrence, token, since, limit = FACTS.unpack_from(
            self._memory, self._start + FACTS_AT
        )
        ids = (UUID(bytes=run), UUID(bytes=occurrence), UUID(bytes=token))
        running = self._memory[self.number] == RUNNING
        return Facts(self.number, pid, serial, *ids, since, limit, running)

    def begun(self, token: UUID) -> tuple[UUID, ...]:
        """The runs that have begun under this token, in their order."""
        start = self._start + BEGUN_AT
        held, count = BEGUN.unpack_from(self._memory, start)
        if held != token.bytes:
            return ()
        first = start + BEGUN.size
        places = range(first, first + 16 * count, 16)
        return tuple(UUID(bytes=bytes(self._memory[place : place + 16])) for place in places)

    def tell(self, serial: int, why: Why) -> None:
        TOLD.pack_into(self._memory, self._start + TOLD_AT, serial, why)

    def interrupt(self, serial: int, why: Why) -> None:
        INTERRUPT.pack_into(self._memory, self._start + INTERRUPT_AT, serial, why)

    def progress(self, serial: int) -> Any:
        """What the attempt last said of itself, or None; also while it is just being written."""
        text = self._get(PROGRESS_AT, serial)
        try:
            return json.loads(text) if text else None
        except ValueError:
            return None

    def logged(self, serial: int) -> str:
        return self._get(LOG_AT, serial).decode(errors="replace")

    def _get(self, offset: int, serial: int) -> bytes:
        start = self._start + offset
        owner, length = TEXT.unpack_from(self._memory, start)
        text = bytes(self._memory[start + TEXT.size : start + TEXT.size + length])
        unchanged = TEXT.unpack_from(self._memory, start) == (serial, length)
        return text if owner == serial and unchanged else b""


class Board:
    """All slots of a worker. Made before the worker forks, so that its processes see the same memory."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, HEAD_AT + HEAD.size)
        self._own = local()
        self._threads = count()

    def __getitem__(self, number: int) -> Slot:
        return Slot(self._memory, number)

    def attempts(self) -> Iterator[Facts]:
        for number, active in enumerate(self._memory[:SLOTS]):
            if active and (facts := self[number].facts()):
                yield facts

    @property
    def supervisor(self) -> int:
        """The process id of the worker whose supervisor reads this; 0: nobody."""
        return int(HEAD.unpack_from(self._memory, HEAD_AT)[0])

    @property
    def stopping(self) -> bool:
        """The worker was told to stop: begin nothing new."""
        return bool(HEAD.unpack_from(self._memory, HEAD_AT)[1])

    def head(self, *, supervisor: int, stopping: bool = False) -> None:
        HEAD.pack_into(self._memory, HEAD_AT, supervisor, stopping)

    def mine(self) -> Slot:
        """The slot of the process that asks; in a pool of threads, of the thread."""
        if getattr(self._own, "pid", None) != os.getpid():
            self._own.pid, self._own.slot = os.getpid(), self._free()
        slot: Slot = self._own.slot
        return slot

    def _free(self) -> Slot:
        index = getattr(current_process(), "index", None)
        if index is None:
            return self[next(self._threads) % SLOTS]
        width = SLOTS // SPARE
        spares = [self[index % width + width * spare] for spare in range(SPARE)]
        return next((slot for slot in spares if not slot.active), spares[0])


board = Board()
