"""Share memory between a worker's processes and its supervisor.

A process that is about to call a function writes into its slot which run it is, under which token, and until
when it may take. The supervisor, in the worker's parent process, reads the slots. It writes back that a run
has to stop, or that the worker is stopping. Neither side waits for the other, and a short task costs only the
write.

Every field has one writer. The state byte of a slot is written last when an attempt begins, and `serial`
names the attempt, so that neither side mistakes one attempt for the next.
"""

import json
import mmap
import os
import signal
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import count
from threading import local
from time import monotonic, monotonic_ns
from typing import Any
from uuid import UUID

from billiard import current_process

INTERRUPT_SIGNAL = signal.SIGUSR2  # Celery uses SIGUSR1
SLOTS = 1024  # more processes or threads share slots: they lose supervision, and keep their leases
# The slot of a process that died has to stay readable. Its successor has the same index in the pool, and
# takes the next of these.
SLOTS_PER_INDEX = 4
SLOT_BYTES = 12288
# pid, serial, run, occurrence, token, since, limit, recorded, hook
FACTS = struct.Struct("<IQ16s16s16sdd??")
NOTICE = struct.Struct("<QB")  # serial, cause
INTERRUPT = struct.Struct("<QB")  # serial, cause
TEXT = struct.Struct("<QI")  # serial, length; then the text
BEGUN = struct.Struct("<16sI")  # token, count; then the runs that have begun under it, in order
ENTRY = struct.Struct("<16sB")  # a run that has begun, and its progress
FACTS_AT, NOTICE_AT, INTERRUPT_AT, RELIEVED_AT, PROGRESS_AT, LOG_AT, BEGUN_AT = (
    0,
    128,
    160,
    176,
    192,
    2048,
    8192,
)
HEAD = struct.Struct("<IB")  # the supervisor's process, whether the worker is stopping
EVENTS_AT = SLOTS + SLOTS * SLOT_BYTES + HEAD.size  # whether the worker sends events of its tasks
HEAD_AT = SLOTS + SLOTS * SLOT_BYTES
IDLE, RUNNING, REPORTING = range(3)
MAX_PROGRESS_BYTES = LOG_AT - PROGRESS_AT - TEXT.size
MAX_LOG_BYTES = BEGUN_AT - LOG_AT - TEXT.size
MAX_BEGUN = (SLOT_BYTES - BEGUN_AT - BEGUN.size) // ENTRY.size  # several times what a message carries


class BegunState(IntEnum):
    """What is known of a run that has begun and whose attempt may not be a row yet."""

    RUNNING = 0  # or over, with a result that only its process knows
    SUCCEEDED = 1  # with nothing to add: the supervisor may report it
    REPORTED = 2  # by the supervisor


class StopCause(IntEnum):
    """Why an attempt has to end before its function has returned."""

    NONE = 0
    CANCELED = 1  # the run was canceled, or another worker has claimed it
    STOPPING = 2  # the worker was told to stop
    TIMEOUT = 3


@dataclass(frozen=True)
class Facts:
    """A running attempt, as its process wrote it. Times are of the machine's monotonic clock."""

    slot: int
    pid: int
    serial: int
    run_id: UUID
    occurrence_id: UUID
    token: UUID
    since: float
    limit: float
    recorded: bool = True  # False: its attempt is not a row yet, as in a bundle
    running: bool = True  # False: the function has returned, its result is being written
    hook: bool = False  # a call of a hook: `run_id` is the id of the call


class Slot:
    """One per process; in a pool of threads, one per thread."""

    def __init__(self, memory: mmap.mmap, number: int) -> None:
        self._memory, self._start = memory, SLOTS + number * SLOT_BYTES  # after the state bytes of all slots
        self.number, self.serial = number, 0

    # -- the process that runs the function ---------------------------------------------------------

    def begin(  # noqa: PLR0913 - the facts of an attempt
        self,
        *,
        run_id: UUID,
        occurrence_id: UUID,
        token: UUID,
        limit: float,
        pid: int,
        recorded: bool = True,
        hook: bool = False,
    ) -> None:
        # Unique across processes: it contains the slot's number, and a slot has one process at a time.
        self.serial = max(self.serial + SLOTS, monotonic_ns() // SLOTS * SLOTS + self.number)
        now = monotonic()
        ids = run_id.bytes, occurrence_id.bytes, token.bytes
        times = now, now + limit
        facts = pid, self.serial, *ids, *times, recorded, hook
        FACTS.pack_into(self._memory, self._start + FACTS_AT, *facts)
        self._note_begun(token.bytes, run_id.bytes)
        self._memory[self.number] = RUNNING

    def _note_begun(self, token: bytes, run: bytes) -> None:
        """Note a run of a bundle whose attempt is not a row yet.

        The count is written last: if the process dies before that, the run has not begun.
        """
        start = self._start + BEGUN_AT
        stored, count = BEGUN.unpack_from(self._memory, start)
        if stored != token:
            count = 0
            BEGUN.pack_into(self._memory, start, token, 0)
        place = start + BEGUN.size + ENTRY.size * min(count, MAX_BEGUN - 1)
        ENTRY.pack_into(self._memory, place, run, BegunState.RUNNING)
        BEGUN.pack_into(self._memory, start, token, min(count + 1, MAX_BEGUN))

    def succeeded(self) -> None:
        """The run that began last is a success with nothing to add: the supervisor may report it."""
        start = self._start + BEGUN_AT
        _, count = BEGUN.unpack_from(self._memory, start)
        self._memory[start + BEGUN.size + ENTRY.size * count - 1] = BegunState.SUCCEEDED

    def returned(self) -> None:
        """The function has returned, its result is not a row yet: no time limit applies any more."""
        self._memory[self.number] = REPORTING

    def end(self) -> None:
        self._memory[self.number] = IDLE

    @property
    def notice(self) -> StopCause:
        """Why the supervisor asked this attempt to stop."""
        serial, cause = NOTICE.unpack_from(self._memory, self._start + NOTICE_AT)
        return StopCause(cause) if serial == self.serial else StopCause.NONE

    @property
    def interruption(self) -> StopCause:
        """Why the function has to be interrupted; NONE when it is not running."""
        serial, cause = INTERRUPT.unpack_from(self._memory, self._start + INTERRUPT_AT)
        running = self._memory[self.number] == RUNNING
        return StopCause(cause) if running and serial == self.serial else StopCause.NONE

    def note(self, progress: object) -> None:
        """Write a JSON value for the supervisor to store; it replaces the one before."""
        text = json.dumps(progress, allow_nan=False).encode()  # NaN is no JSON
        if len(text) > MAX_PROGRESS_BYTES:
            raise ValueError(f"progress takes {len(text)} bytes; at most {MAX_PROGRESS_BYTES} are kept")
        self._put(PROGRESS_AT, text)

    def log(self, text: bytes) -> None:
        """Write the last lines that the function has logged, in case its process dies before the report."""
        self._put(LOG_AT, text[-MAX_LOG_BYTES:])

    def _put(self, offset: int, text: bytes) -> None:
        start = self._start + offset
        TEXT.pack_into(self._memory, start, 0, 0)  # a reader finds no text rather than half of it
        self._memory[start + TEXT.size : start + TEXT.size + len(text)] = text
        TEXT.pack_into(self._memory, start, self.serial, len(text))

    @property
    def active(self) -> bool:
        return self._memory[self.number] != IDLE

    # -- the supervisor -----------------------------------------------------------------------------

    def facts(self) -> Facts | None:
        """None while the slot is idle or being written: two equal reads are complete."""
        facts = self._facts()
        return facts if self.active and facts == self._facts() else None

    def _facts(self) -> Facts:
        pid, serial, run, occurrence, token, since, limit, recorded, hook = FACTS.unpack_from(
            self._memory, self._start + FACTS_AT
        )
        ids = (UUID(bytes=run), UUID(bytes=occurrence), UUID(bytes=token))
        running = self._memory[self.number] == RUNNING
        return Facts(self.number, pid, serial, *ids, since, limit, recorded, running, hook)

    def begun(self, token: UUID) -> dict[UUID, BegunState]:
        """The runs that have begun under this token, in order."""
        start = self._start + BEGUN_AT
        stored, count = BEGUN.unpack_from(self._memory, start)
        if stored != token.bytes:
            return {}
        first = start + BEGUN.size
        entries = ENTRY.iter_unpack(self._memory[first : first + ENTRY.size * count])
        return {UUID(bytes=run): BegunState(state) for run, state in entries}

    def note_reported(self, token: UUID, runs: Collection[UUID]) -> None:
        """The supervisor has reported these successes; their process need not."""
        for place, run in enumerate(self.begun(token)):
            if run in runs:
                end = self._start + BEGUN_AT + BEGUN.size + ENTRY.size * (place + 1)
                self._memory[end - 1] = BegunState.REPORTED

    def notify(self, serial: int, cause: StopCause) -> None:
        NOTICE.pack_into(self._memory, self._start + NOTICE_AT, serial, cause)

    def interrupt(self, serial: int, cause: StopCause) -> None:
        INTERRUPT.pack_into(self._memory, self._start + INTERRUPT_AT, serial, cause)

    def progress(self, serial: int) -> Any:
        """The last progress the attempt noted; None if there is none, or while it is being written."""
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
    """All slots of a worker. Created before the worker forks, so that its processes share the memory."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, EVENTS_AT + 1)
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
        """The process id of the worker whose supervisor reads this board; 0: there is none."""
        return int(HEAD.unpack_from(self._memory, HEAD_AT)[0])

    @property
    def stopping(self) -> bool:
        """The worker was told to stop: its processes begin nothing new."""
        return bool(HEAD.unpack_from(self._memory, HEAD_AT)[1])

    def head(self, *, supervisor: int, stopping: bool = False) -> None:
        HEAD.pack_into(self._memory, HEAD_AT, supervisor, stopping)

    @property
    def sends_events(self) -> bool:
        """Whether Flower, or another monitor, has asked the worker for events; only the worker knows it."""
        return bool(self._memory[EVENTS_AT])

    @sends_events.setter
    def sends_events(self, enabled: bool) -> None:
        self._memory[EVENTS_AT] = enabled

    def own_slot(self) -> Slot:
        """The slot of the calling process; in a pool of threads, of the calling thread."""
        if getattr(self._own, "pid", None) != os.getpid():
            self._own.pid, self._own.slot = os.getpid(), self._free_slot()
        slot: Slot = self._own.slot
        return slot

    def _free_slot(self) -> Slot:
        index = getattr(current_process(), "index", None)
        if index is None:
            return self[next(self._threads) % SLOTS]
        width = SLOTS // SLOTS_PER_INDEX
        slots = [self[index % width + width * spare] for spare in range(SLOTS_PER_INDEX)]
        return next((slot for slot in slots if not slot.active), slots[0])


board = Board()
