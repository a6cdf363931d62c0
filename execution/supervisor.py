"""The attempts of one worker → kept alive, told, interrupted, killed, and accounted for when they are gone.

One per worker, in a thread of its parent process; the attempts run in the worker's other processes (in
its threads, if it has a pool of those), and `slots` is how they know of each other. So a heartbeat costs a
task nothing, one statement renews the leases of a whole worker, code that never returns cannot keep its
supervisor from ending it, and a process that dies is noticed at once instead of when its lease runs out.

What the worker has taken ahead and cannot begin it passes on (see `ahead`).

What a dead supervisor leaves undone is caught by the leases it no longer renews.
"""

import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from uuid import UUID

from execution.ahead import Ahead
from execution.claim import Claim
from execution.dispatch import dispatch
from execution.hooks import ask_for_hooks
from execution.limits import Limits
from execution.outcome import Ending, Result
from execution.report import Report, report
from execution.settle import Settled
from execution.slots import INTERRUPT_SIGNAL, Board, Facts, Why
from execution.verdict import Verdict, Watched, ending, ends, verdict
from jobs.events import Event, emit
from jobs.ids import shown
from occurrences import transitions
from occurrences.models import TaskRun
from occurrences.states import RUN_HELD, RunState

Clock = Callable[[], datetime]
LOOK_INTERVAL = 0.4  # seconds between two looks at the ledger: what is canceled hears of it within a second
RENEWALS_PER_LEASE = 3


@dataclass(frozen=True)
class Supervised:
    """What one pass did."""

    told: int = 0
    renewed: int = 0
    interrupted: int = 0
    killed: int = 0
    ended: int = 0
    passed_on: int = 0


@dataclass(frozen=True)
class Debt:
    """An attempt that its process will not report any more."""

    facts: Facts
    gone: bool  # the process too, and whatever else it held
    result: Result | None  # None: the ledger knows already
    company: Result  # for what it had begun, and not reported, of the same bundle
    begun: tuple[UUID, ...] = ()  # of its bundle, itself included


@dataclass
class Supervisor:
    board: Board
    limits: Limits
    stopping: bool = False  # set from a signal handler, which may do nothing else
    watched: dict[int, Watched] = field(default_factory=dict)
    owed: list[Debt] = field(default_factory=list)
    looked: float = 0.0
    ahead: Ahead = field(default_factory=Ahead)

    def run_once(self, *, at: float, clock: Clock) -> Supervised:
        """First what needs no database, so that a database that is down protects no runaway."""
        self._see()
        told = self._tell_stopping(at) if self.stopping else 0
        verdicts = {serial: self._judged(item, at) for serial, item in self.watched.items()}
        done = Supervised(
            told=told,
            interrupted=self._interrupt(_those(verdicts, Verdict.INTERRUPT)),
            killed=self._kill(_those(verdicts, Verdict.KILL)),
        )
        self._abandon(_those(verdicts, Verdict.ABANDON))
        self._bury(_those(verdicts, Verdict.GONE))
        passed_on = self.ahead.run_once(at=at, clock=clock, stopping=self.stopping)
        done = replace(done, ended=self._settle_debts(clock), passed_on=passed_on)
        if at - self.looked < LOOK_INTERVAL or not (settled := self._settled_in(at)):
            return done
        self.looked = at
        now = clock()
        canceled = self._tell_canceled(settled, at)
        self._store_progress(settled)
        return replace(done, told=told + canceled, renewed=self._renew(settled, at=at, now=now))

    # -- without the database -----------------------------------------------------------------------

    def _see(self) -> None:
        present = {facts.serial: facts for facts in self.board.attempts()}
        self.watched = {
            serial: replace(self.watched.get(serial, Watched(facts, renewed=facts.since)), facts=facts)
            for serial, facts in present.items()
        }

    def _judged(self, item: Watched, at: float) -> Verdict:
        here = item.facts.pid == os.getpid()
        alive = here or exit_status(item.facts.pid) is None
        return verdict(item, at=at, alive=alive, killable=not here, limits=self.limits)

    def _tell_stopping(self, at: float) -> int:
        fresh = [item for item in self.watched.values() if item.why is Why.NONE]
        for item in fresh:
            self._tell(item, Why.STOPPING, at)
        return len(fresh)

    def _tell(self, item: Watched, why: Why, at: float) -> None:
        self.board[item.facts.slot].tell(item.facts.serial, why)
        self.watched[item.facts.serial] = replace(item, why=why, since=at)

    def _interrupt(self, serials: Sequence[int]) -> int:
        for serial in serials:
            item = self.watched[serial]
            self.board[item.facts.slot].interrupt(serial, ends(item, self.limits)[2])
            # The handler looks again: an attempt that has ended meanwhile is not disturbed, nor the next one.
            _signal(item.facts.pid, INTERRUPT_SIGNAL)
            self.watched[serial] = replace(item, interrupted=True)
        return len(serials)

    def _kill(self, serials: Sequence[int]) -> int:
        """The process goes first, its attempt is recorded when it is gone: two never run at once."""
        for serial in serials:
            item = self.watched[serial]
            _signal(item.facts.pid, signal.SIGKILL)
            self.watched[serial] = replace(item, killed=True)
        return len(serials)

    def _abandon(self, serials: Sequence[int]) -> None:
        for serial in serials:
            item = self.watched[serial] = replace(self.watched[serial], abandoned=True)
            self._owe(item, "cannot be killed in this kind of pool; its result will not count", gone=False)

    def _bury(self, serials: Sequence[int]) -> None:
        for serial in serials:
            item = self.watched.pop(serial)
            self.board[item.facts.slot].end()
            self._owe(item, exit_status(item.facts.pid) or "", gone=True)

    def _owe(self, item: Watched, how: str, *, gone: bool) -> None:
        found = ending(item, self.limits)
        log = self.board[item.facts.slot].logged(item.facts.serial)
        result = replace(_result(item, found, how), log=log) if found else None
        company = Result(found or Ending.LOST, error_type="WorkerLost", error=how)
        begun = self.board[item.facts.slot].begun(item.facts.token)
        self.owed.append(Debt(item.facts, gone, result, company, begun))

    def _settled_in(self, at: float) -> list[Watched]:
        """Those that have run for a while: a short task costs no statement."""
        return [item for item in self.watched.values() if at - item.facts.since >= LOOK_INTERVAL]

    # -- with it ------------------------------------------------------------------------------------

    def _settle_debts(self, clock: Clock) -> int:
        """Kept until it worked; the tokens see to it that nothing is recorded twice."""
        if not self.owed:
            return 0
        owed = list(self.owed)
        reports, unbegun = _with_company(owed)
        settled = report(reports, now=clock()) if reports else Settled()
        for token, ids in unbegun.items():
            transitions.hand_back(ids, token=token, now=clock())
        self.owed = self.owed[len(owed) :]
        for item in reports:
            run, result = shown("run", item.run_id), item.result
            emit(Event.ATTEMPT_ENDED, run=run, ending=result.ending, how=result.error)
        sent = [*settled.released, *chain.from_iterable(unbegun.values())]
        dispatch(sent, now=clock(), chords=False, bundles=False)
        ask_for_hooks(settled.finished)  # user code: it runs where tasks do
        return len(reports) - settled.fenced

    def _tell_canceled(self, items: Iterable[Watched], at: float) -> int:
        fresh = {item.facts.run_id: item for item in items if item.why is not Why.CANCELED and not item.over}
        rows = TaskRun.objects.filter(id__in=fresh).values_list("id", "claim_token")
        tokens: dict[UUID, UUID | None] = dict(rows)
        gone = [item for id_, item in fresh.items() if tokens.get(id_) != item.facts.token]
        for item in gone:
            self._tell(item, Why.CANCELED, at)
        return len(gone)

    def _store_progress(self, items: Iterable[Watched]) -> None:
        said = {item.facts: self.board[item.facts.slot].progress(item.facts.serial) for item in items}
        notes = {facts.run_id: text for facts, text in said.items() if text is not None}
        tokens = {facts.run_id: facts.token for facts in said}
        if notes:
            transitions.note_progress(notes, tokens=tokens)

    def _renew(self, items: Iterable[Watched], *, at: float, now: datetime) -> int:
        interval = self.limits.lease.total_seconds() / RENEWALS_PER_LEASE
        due = [
            item
            for item in (self.watched[item.facts.serial] for item in items)
            if at - item.renewed >= interval and item.why is not Why.CANCELED and not item.over
        ]
        if not due:
            return 0
        tokens = {item.facts.run_id: item.facts.token for item in due}
        renewed = transitions.renew_all(tokens, now=now, lease=self.limits.lease)
        for item in due:
            if item.facts.run_id in renewed:  # the others are locked by somebody: again at the next look
                self.watched[item.facts.serial] = replace(item, renewed=at)
        return len(renewed)


def _with_company(owed: Iterable[Debt]) -> tuple[list[Report], dict[UUID, list[UUID]]]:
    """The reports owed, and unbegun runs by token: what a dead process held besides goes the way of the
    one that was running if it had begun, and back in line if it had not."""
    debts = {debt.facts.token: debt for debt in owed}
    reports: list[Report] = []
    unbegun = defaultdict(list)
    for run in TaskRun.objects.filter(claim_token__in=debts, state__in=RUN_HELD):
        debt = debts[run.claim_token or UUID(int=0)]
        own = run.id == debt.facts.run_id
        held = run.state == RunState.CLAIMED
        if held and run.id not in debt.begun:
            if debt.gone:
                unbegun[debt.facts.token].append(run.id)
        elif own or debt.gone:
            result = debt.result if own else debt.company
            reports += [_owed(run, debt.facts.token, result, late=held)] if result is not None else []
    return reports, unbegun


def _owed(run: TaskRun, token: UUID, result: Result, *, late: bool) -> Report:
    """Of a bundle's attempts that are not yet rows only the time of their claim is known."""
    if late:
        run.started_at = run.heartbeat_at
    claim = Claim(run, token, run.attempts_made, recorded=False) if late else None
    return Report(run.id, run.occurrence_id, token, result, claim)


def exit_status(pid: int) -> str | None:
    """How a child process ended; None while it lives. Leaves it for the pool to collect."""
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return "its process is gone"
    if found is None:
        return None
    if found.si_code == os.CLD_EXITED:
        return f"its process exited with {found.si_status}"
    return f"its process was ended by {signal.Signals(found.si_status).name}"


def _those(verdicts: dict[int, Verdict], wanted: Verdict) -> list[int]:
    return [serial for serial, found in verdicts.items() if found is wanted]


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # the next pass finds it gone
        os.kill(pid, number)


ERROR_TYPES = {Ending.TIMEOUT: "TaskTimeout", Ending.LOST: "WorkerLost", Ending.RELEASED: ""}


def _result(item: Watched, found: Ending, how: str) -> Result:
    seconds = item.facts.limit - item.facts.since
    text = f"still running after {seconds:g} s; {how}" if found is Ending.TIMEOUT else how
    return Result(found, error_type=ERROR_TYPES[found], error=text)
