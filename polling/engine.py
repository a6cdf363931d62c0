"""One poll: what is due is claimed and its callback launched; one callback: called, its end recorded.

The clock and every wait are parameters: this module reads no clock and sleeps through `pause` only.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID, uuid4

from django.db import Error as DatabaseFault

from jobs.ids import job_id, shown
from polling.adoption import Adopted, adopt
from polling.claims import LEASE, Claim, Owner, renew, start
from polling.database import DatabaseThread
from polling.due import Wait, Why, decide
from polling.events import Listener, Signal, deaf, emit
from polling.outcomes import Failure, failure, record
from polling.reading import Seen, Unreadable, read
from polling.registrations import Callback, Checked

Clock = Callable[[], Awaitable[datetime]]
Pause = Callable[[asyncio.Event, float], Awaitable[None]]

SOON = timedelta(seconds=1)
# Which claim the running code belongs to, in tasks that a callback spawns as well.
INSIDE: ContextVar[UUID | None] = ContextVar("polling_claim", default=None)


@dataclass(frozen=True)
class Polled:
    """`wake_at` is when the next poll may find something; None: not before something else happens."""

    started: tuple[str, ...] = ()
    lost: int = 0
    wake_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What the engine takes from outside: real in production, virtual in tests."""

    database: DatabaseThread
    clock: Clock
    pause: Pause
    zone: str
    worker: str = ""
    lease: timedelta = LEASE
    listener: Listener = deaf


class Engine:
    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.owner: Owner | None = None  # generated when it first initialises
        self.registrations: dict[UUID, Checked] = {}
        self.held: dict[UUID, tuple[Claim, asyncio.Task[None]]] = {}
        self.unrecorded: list[Exception] = []
        self.wake = asyncio.Event()
        self.halted = asyncio.Event()
        self.ended = asyncio.Event()
        self._turn = asyncio.Lock()

    async def adopt(self, registrations: tuple[Checked, ...]) -> Adopted:
        """All of them are in force afterwards, or none."""
        async with self._turn:
            owner = self.owner = self.owner or Owner(uuid4(), self.around.worker)
            now = await self.around.clock()
            step = partial(adopt, scheduler_id=owner.scheduler_id, zone=self.around.zone, now=now)
            fate = await self.around.database.run(step, registrations)
            self.registrations = {job_id(item.name): item for item in registrations}
        return fate

    async def run_once(self, now: datetime) -> Polled:
        async with self._turn:
            if self.owner is None:
                return Polled()
            seen = await self.around.database.run(read, list(self.registrations))
            results = [await self._visit(item, self.owner, now) for item in seen]
        started = tuple(item.name for item in results if isinstance(item, Claim))
        waits = [item.until for item in results if isinstance(item, Wait)]
        lost = sum(item is None for item in results)
        wake_at = min((at for at in (*waits, now + SOON if lost else None) if at), default=None)
        return Polled(started, lost, wake_at)

    async def _visit(self, seen: Seen | Unreadable, owner: Owner, now: datetime) -> Claim | Wait | None:
        """None: it was due, and somebody else was first."""
        if isinstance(seen, Unreadable):
            emit(self.around.listener, Signal.TASK_UNREADABLE, task=seen.name, error=seen.error)
            return Wait(None)
        registered = self.registrations[seen.job.id]
        # Running here: its end wakes the poll. Another rule: somebody else's `initialize` came later.
        if self.halted.is_set() or seen.job.name in self.running or registered.rule != seen.task.rule:
            return Wait(None)
        decision = decide(seen.task, zone=self.around.zone, now=now, holder=seen.holder)
        if isinstance(decision, Wait):
            return decision
        step = partial(start, owner=owner, now=now, lease=self.around.lease)
        claim = await self.around.database.run(step, seen, decision)
        if claim is not None:
            self._launch(claim, registered.callback)
        return claim

    @property
    def running(self) -> set[str]:
        return {claim.name for claim, _ in self.held.values()}

    # -- callbacks -------------------------------------------------------------------------------

    def _launch(self, claim: Claim, callback: Callback) -> None:
        if claim.preempted:
            self._tell(Signal.RETRY_PREEMPTED, claim)
        self._tell(Signal.RETRY_STARTED if claim.why is Why.RETRY else Signal.RUN_STARTED, claim)
        task = asyncio.create_task(self._perform(claim, callback), name=f"polling {claim.name}")
        self.held[claim.token] = claim, task
        task.add_done_callback(partial(self._let_go, claim))

    async def _perform(self, claim: Claim, callback: Callback) -> None:
        INSIDE.set(claim.token)
        failed: Failure | None = None
        try:
            await callback()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the process ends or the claim is gone: nothing may be recorded
            failed = failure(error)
        except Exception as error:  # noqa: BLE001 - a callback may raise anything; all of it is data
            failed = failure(error)
        await self._record(claim, failed)

    async def _record(self, claim: Claim, failed: Failure | None) -> None:
        """While the lease lasts, a database that is away is waited for."""
        for _ in range(max(1, self.around.lease // SOON)):
            try:
                step = partial(record, now=await self.around.clock())
                mine = await self.around.database.run(step, claim, failed)
            except DatabaseFault as error:
                trouble = error
                await self.around.pause(asyncio.Event(), SOON.total_seconds())
            else:
                self._tell_end(claim, failed, mine=mine)
                return
        raise trouble

    def _tell_end(self, claim: Claim, failed: Failure | None, *, mine: bool) -> None:
        if not mine:
            self._tell(Signal.CLAIM_LOST, claim)
        elif failed is None:
            self._tell(Signal.RUN_COMPLETED, claim)
        else:
            self._tell(Signal.RUN_FAILED, claim, error=f"{failed.error_type}: {failed.error}")

    def _let_go(self, claim: Claim, task: asyncio.Task[None]) -> None:
        """However it ended; from here on nobody renews its lease."""
        self.held.pop(claim.token, None)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self.unrecorded.append(error)
            self._tell(Signal.OUTCOME_UNRECORDED, claim, error=repr(error))
        self.wake.set()
        self.ended.set()

    # -- leases ----------------------------------------------------------------------------------

    def renewed(self, now: datetime) -> tuple[Claim, ...]:
        """In the database's thread: extend what is held; returned are the claims that are lost."""
        return renew([claim for claim, _ in list(self.held.values())], now=now, lease=self.around.lease)

    def drop(self, claim: Claim) -> None:
        """Somebody else may run it by now: stop, and record nothing."""
        if found := self.held.get(claim.token):
            self._tell(Signal.CLAIM_LOST, claim)
            found[1].cancel()

    def _tell(self, signal: Signal, claim: Claim, **facts: object) -> None:
        run = shown("run", claim.run_id)
        emit(self.around.listener, signal, task=claim.name, run=run, attempt=claim.number, **facts)
