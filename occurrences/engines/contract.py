"""What goes into a claim and an ending, and what comes out of them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from django.db.models import Model

from punctual.jobs.config.choices import FailureStrategy
from punctual.occurrences.states import RUN_FINAL, AttemptState, OccurrenceState, RunState

Row = Mapping[str, Any]  # values by attribute name; columns not named have their default
FIRST_INSTANT, FIRST_ID = datetime(1, 1, 2, tzinfo=UTC), UUID(int=0)


class Wait(Enum):
    """How long to wait for rows that another session holds; NEVER leaves them out, BRIEFLY raises."""

    FOREVER = 1
    BRIEFLY = 2
    NEVER = 3


class Take(NamedTuple):
    """Who claims runs, and until when.

    `attempts` are the ids of the first attempts of a message's only run: it begins with its claim, and its
    attempt is inserted. Without them, or if the run has had more attempts, the run is claimed and not begun.
    """

    token: UUID
    worker: str
    now: datetime
    lease_until: datetime
    attempts: tuple[UUID, ...] = ()


class OccurrenceFacts(NamedTuple):
    """The columns of an occurrence and its job that its report and its next step depend on."""

    id: UUID
    job_id: UUID
    job: str
    job_version: int
    cause: str
    scheduled_for: datetime
    pool: str
    config: Mapping[str, Any]
    started_at: datetime | None
    holds_slot: bool = True
    ending: str = ""  # how it will end, once its clean-up is over
    reason: str = ""


class RunFacts(NamedTuple):
    """The columns of a run that the report and the next step of its occurrence depend on."""

    id: UUID
    occurrence_id: UUID
    task: str
    position: int
    state: str
    reason: str
    policy: Mapping[str, Any]
    attempts_made: int
    started_at: datetime | None
    finished_at: datetime | None
    error: str
    held_back: bool = False  # waits for its predecessors
    parked: bool = False  # its occurrence has no slot

    @property
    def open(self) -> bool:
        return self.state not in RUN_FINAL

    @property
    def waiting(self) -> bool:
        """It needs no slot now: it waits for its retry or its predecessors, or it is parked."""
        return self.held_back or self.parked or self.state == RunState.RETRY

    @property
    def tolerant(self) -> bool:
        """Its failure cancels no other run, and no other failure cancels it: clean-up work."""
        return bool(self.policy.get("failure_strategy") == FailureStrategy.CONTINUE)


class ClaimedRun(NamedTuple):
    """What a worker needs to call a function and to report its result."""

    id: UUID
    task_id: UUID
    task: str
    function: str
    position: int
    reason: str
    policy: Mapping[str, Any]
    attempts_made: int
    snoozes: int
    started_at: datetime | None
    begun: bool
    occurrence: OccurrenceFacts
    run_at: datetime
    deadline_at: datetime | None
    args: dict[str, Any]
    covers: dict[str, Any] | None
    metadata: dict[str, Any]
    first: bool  # this claim started its occurrence
    alone: bool  # it is the only run of its occurrence


class RunEnd(NamedTuple):
    """How an attempt ends: new values of its run, of itself and, if the run is alone, of its occurrence.

    None leaves a column of the run as it is. The fields are in the order of the statement's parameters.
    """

    run: UUID
    occurrence: UUID
    token: UUID
    state: RunState
    available_at: datetime | None
    final: bool
    snoozed: int  # 1: the attempt does not count
    reason: str | None
    error: str | None
    fingerprint: str | None
    attempt: UUID
    number: int
    started_at: datetime
    recorded: bool  # the attempt is a row
    attempt_state: AttemptState
    error_type: str = ""
    message: str = ""
    traceback: str = ""
    log: str = ""
    outcome: OccurrenceState | None = None
    finalized: bool = False
    report: str | None = None  # JSON
    rests: bool = False  # nothing else of its occurrence is open: the slot is given back until the retry


class Closing(NamedTuple):
    """How an occurrence ends."""

    occurrence: UUID
    outcome: OccurrenceState
    reason: str
    finalized: bool  # there is no completion hook to call
    report: str  # JSON


class Ended(NamedTuple):
    """The runs that a call has ended, the occurrences that it has closed, and those that rest until a retry.

    Each occurrence is mapped to whether another one may wait for its slot.
    """

    runs: set[UUID]
    closed: dict[UUID, bool]
    resting: Mapping[UUID, bool] = {}


class Cutoff(NamedTuple):
    """A job and the instant before which its finished occurrences may be deleted.

    `since` and `after` are the instant and the id of the row looked at last.
    """

    job_id: UUID
    cutoff: datetime
    since: datetime = FIRST_INSTANT
    after: UUID = FIRST_ID


class Engine(Protocol):
    """The steps that each engine takes, for any outcome and any number of rows."""

    def claim(self, ids: Sequence[UUID], take: Take) -> list[ClaimedRun]: ...

    def end(self, ends: Sequence[RunEnd], *, now: datetime) -> Ended: ...

    def step_due(self, ids: Collection[UUID]) -> list[UUID]: ...

    def lock_occurrences(
        self, ids: Collection[UUID], states: Iterable[OccurrenceState], wait: Wait
    ) -> list[OccurrenceFacts]: ...

    def read_runs(self, occurrences: Collection[UUID]) -> list[RunFacts]: ...

    def close(
        self, closings: Sequence[Closing], *, states: Iterable[OccurrenceState], now: datetime
    ) -> dict[UUID, bool]: ...

    def lock_parents(self, ids: Collection[UUID]) -> set[UUID]:
        """Lock parent occurrences so that pruning cannot delete them; return those that exist.

        Pruning locks occurrences before it looks for rows that refer to them (`punctual.recovery.pruning`).
        So a parent either exists when a new row refers to it, and stays until that row is visible, or it is
        gone. Both lock in the order of ids, to avoid a deadlock. Call in a transaction; waits for deletions.
        """

    def lock_pools(self, names: Collection[str], *, wait: bool) -> dict[str, int]:
        """Lock existing pools until the end of the transaction; return their sizes.

        `wait`: wait for pools that another process has locked, half a second at most; or leave them out.
        """

    def oldest_rows(
        self, cutoffs: Sequence[Cutoff], columns: tuple[str, ...], limit: int
    ) -> list[tuple[Any, ...]]:
        """The oldest occurrences before their cutoffs, in the order of `cutoffs` and of their instants."""

    def pipeline(self) -> AbstractContextManager[None]:
        """Send statements without waiting for each answer; at the end of the block all have been executed.

        Use inside a transaction, for writes only: a query inside would wait for all statements before it. A
        statement that failed raises at the end. Without pipelines each statement is waited for.
        """

    def insert_missing(self, model: type[Model], rows: Iterable[Row]) -> int:
        """Insert rows that no other process has inserted; return their number (not known in a pipeline).

        Rows are inserted in the order of their ids: unsorted inserts of two processes would deadlock.
        """

    def update_rows(self, model: type[Model], rows: Sequence[Any], *columns: str) -> None:
        """Write these columns of rows that the transaction has locked.

        Rows are instances of the model, or other objects with the same attributes.
        """
