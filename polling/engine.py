"""Poll once: claim what is due and launch its callbacks; record the outcome of each callback.

The clock and every pause are passed in, so that tests run in virtual time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID, uuid4

from django.db import Error as DatabaseFault
from django.db import InterfaceError, OperationalError, ProgrammingError

from punctual.jobs.ids import format_id, job_id
from punctual.polling.claims import LEASE, Claim, Owner, renew, start
from punctual.polling.database_thread import DatabaseThread
from punctual.polling.eligibility import StartReason, Wait, decide
from punctual.polling.errors import SchedulerDatabaseError
from punctual.polling.outcomes import Failure, describe_failure, record
from punctual.polling.reconciliation import Reconciliation, reconcile
from punctual.polling.registrations import Callback, CheckedRegistration, digest
from punctual.polling.scheduler_events import Listener, SchedulerEvent, emit, ignore_event
from punctual.polling.snapshots import TaskSnapshot, UnreadableTask, read_roster, read_tasks

Clock = Callable[[], Awaitable[datetime]]
Pause = Callable[[asyncio.Event, float], Awaitable[None]]

NO_TABLE = ("no such table", "does not exist")
RETRY_INTERVAL = timedelta(seconds=1)
# The claim of the running callback; asyncio tasks that the callback creates inherit it.
CURRENT_CLAIM: ContextVar[UUID | None] = ContextVar("polling_claim", default=None)


@dataclass(frozen=True)
class PollResult:
    """`wake_at` is when the next poll may find work; None: only after an event."""

    started: tuple[str, ...] = ()
    lost: int = 0
    wake_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Dependencies:
    """What the engine gets from outside: real in production, virtual in tests."""

    database: DatabaseThread
    clock: Clock
    pause: Pause
    zone: str
    worker: str = ""
    lease: timedelta = LEASE
    listener: Listener = ignore_event


@contextmanager
def database_errors() -> Iterator[None]:
    """Raise a PollingError when the database does not answer or has no tables."""
    try:
        yield
    except (OperationalError, InterfaceError, ProgrammingError) as error:
        if any(words in str(error) for words in NO_TABLE):
            raise SchedulerDatabaseError(error, advice="run `manage.py migrate` first") from error
        raise SchedulerDatabaseError(error, advice="nothing was changed, call initialize again") from error


class Engine:
    def __init__(self, dependencies: Dependencies) -> None:
        self.dependencies = dependencies
        self.owner: Owner | None = None  # set by the first `initialize`
        self.registrations: dict[UUID, CheckedRegistration] = {}
        self.running: dict[UUID, tuple[Claim, asyncio.Task[None]]] = {}
        self.digest = ""  # of the registrations
        self.replaced = False  # whether another process has registered a different set since
        self.record_errors: list[Exception] = []
        self.wake = asyncio.Event()
        self.halted = asyncio.Event()
        self.callback_ended = asyncio.Event()
        self._lock = asyncio.Lock()

    async def initialize(self, registrations: tuple[CheckedRegistration, ...]) -> Reconciliation:
        """Put the registrations in force; raises and changes nothing if one fails."""
        async with self._lock:
            owner = self.owner = self.owner or Owner(uuid4(), self.dependencies.worker)
            with database_errors():
                now = await self.dependencies.clock()
                scheduler = owner.scheduler_id
                step = partial(reconcile, scheduler_id=scheduler, zone=self.dependencies.zone, now=now)
                result = await self.dependencies.database.run(step, registrations)
            self.registrations = {job_id(item.name): item for item in registrations}
            self.digest = digest(registrations)
            self.replaced = False
        for name, error in result.unreadable.items():
            emit(self.dependencies.listener, SchedulerEvent.TASK_UNREADABLE, task=name, error=error)
        return result

    async def run_once(self, now: datetime) -> PollResult:
        async with self._lock:
            if self.owner is None:
                return PollResult()
            self._compare_roster(await self.dependencies.database.run(read_roster))
            snapshots = await self.dependencies.database.run(read_tasks, list(self.registrations))
            results = [await self._start_if_due(item, self.owner, now) for item in snapshots]
        started = tuple(item.name for item in results if isinstance(item, Claim))
        waits = [item.until for item in results if isinstance(item, Wait)]
        lost = sum(item is None for item in results)
        wake_at = min((at for at in (*waits, now + RETRY_INTERVAL if lost else None) if at), default=None)
        return PollResult(started, lost, wake_at)

    async def _start_if_due(
        self, snapshot: TaskSnapshot | UnreadableTask, owner: Owner, now: datetime
    ) -> Claim | Wait | None:
        """Start a task if it is due. None: it was due, but another process was first."""
        if isinstance(snapshot, UnreadableTask):
            emit(
                self.dependencies.listener,
                SchedulerEvent.TASK_UNREADABLE,
                task=snapshot.name,
                error=snapshot.error,
            )
            return Wait(None)
        registered = self.registrations[snapshot.job.id]
        # Running here: its end wakes the poll. Different rule: another process called `initialize` later.
        if (
            self.halted.is_set()
            or snapshot.job.name in self.running_names
            or registered.rule != snapshot.task.rule
        ):
            return Wait(None)
        decision = decide(snapshot.task, zone=self.dependencies.zone, now=now, holder=snapshot.holder)
        if isinstance(decision, Wait):
            return decision
        step = partial(start, owner=owner, now=now, lease=self.dependencies.lease)
        claim = await self.dependencies.database.run(step, snapshot, decision)
        if claim is not None:
            self._launch(claim, registered.callback)
        return claim

    def _compare_roster(self, stored: str) -> None:
        """Notice that another process has registered a different set, or this one again."""
        replaced = stored != self.digest
        if replaced != self.replaced:
            self.replaced = replaced
            event = SchedulerEvent.REPLACED if replaced else SchedulerEvent.REINSTATED
            emit(self.dependencies.listener, event)

    @property
    def running_names(self) -> set[str]:
        return {claim.name for claim, _ in self.running.values()}

    # -- callbacks -------------------------------------------------------------------------------

    def _launch(self, claim: Claim, callback: Callback) -> None:
        if claim.preempted:
            self._emit(SchedulerEvent.RETRY_PREEMPTED, claim)
        self._emit(
            SchedulerEvent.RETRY_STARTED if claim.reason is StartReason.RETRY else SchedulerEvent.RUN_STARTED,
            claim,
        )
        task = asyncio.create_task(self._run(claim, callback), name=f"polling {claim.name}")
        self.running[claim.token] = claim, task
        task.add_done_callback(partial(self._forget, claim))

    async def _run(self, claim: Claim, callback: Callback) -> None:
        CURRENT_CLAIM.set(claim.token)
        failure: Failure | None = None
        try:
            await callback()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the process ends or the claim is lost: record nothing
            failure = describe_failure(error)
        except Exception as error:  # noqa: BLE001 - user code may raise any exception
            failure = describe_failure(error)
        await self._record(claim, failure)

    async def _record(self, claim: Claim, failure: Failure | None) -> None:
        """Record the outcome; while the database is away, retry for as long as the lease lasts."""
        for _ in range(max(1, self.dependencies.lease // RETRY_INTERVAL)):
            try:
                step = partial(record, now=await self.dependencies.clock())
                recorded = await self.dependencies.database.run(step, claim, failure)
            except DatabaseFault as error:
                database_error = error
                await self.dependencies.pause(asyncio.Event(), RETRY_INTERVAL.total_seconds())
            else:
                self._emit_outcome(claim, failure, recorded=recorded)
                return
        raise database_error

    def _emit_outcome(self, claim: Claim, failure: Failure | None, *, recorded: bool) -> None:
        if not recorded:
            self._emit(SchedulerEvent.CLAIM_LOST, claim)
        elif failure is None:
            self._emit(SchedulerEvent.RUN_COMPLETED, claim)
        else:
            self._emit(SchedulerEvent.RUN_FAILED, claim, error=f"{failure.error_type}: {failure.error}")

    def _forget(self, claim: Claim, task: asyncio.Task[None]) -> None:
        """Forget the claim: its lease is no longer renewed."""
        self.running.pop(claim.token, None)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self.record_errors.append(error)
            self._emit(SchedulerEvent.OUTCOME_UNRECORDED, claim, error=repr(error))
        self.wake.set()
        self.callback_ended.set()

    # -- leases ----------------------------------------------------------------------------------

    def renew_leases(self, now: datetime) -> tuple[Claim, ...]:
        """Renew the leases of all running callbacks; return the lost claims. Runs in the database thread."""
        return renew(
            [claim for claim, _ in list(self.running.values())], now=now, lease=self.dependencies.lease
        )

    def drop(self, claim: Claim) -> None:
        """Cancel the callback of a lost claim: another process may be running the task."""
        if entry := self.running.get(claim.token):
            self._emit(SchedulerEvent.CLAIM_LOST, claim)
            entry[1].cancel()

    def _emit(self, event: SchedulerEvent, claim: Claim, **facts: object) -> None:
        run = format_id("run", claim.run_id)
        emit(self.dependencies.listener, event, task=claim.name, run=run, attempt=claim.number, **facts)
