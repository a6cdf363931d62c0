"""Supervise the attempts of one worker: renew leases, notify, interrupt, kill, and report the dead.

One supervisor runs per worker, in a thread of its parent process. The attempts run in the worker's other
processes (in its threads, if it has a pool of threads), and `board` connects both sides. So a heartbeat costs
a task nothing, one statement renews the leases of a whole worker, code that never returns cannot block its
supervisor, and the death of a process is noticed at once instead of when its lease expires.

The runs of messages that the worker has prefetched and cannot start are passed on (`prefetch`).

If a supervisor dies, the leases it no longer renews expire, and the reaper takes the runs.
"""

import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from uuid import UUID

from django.db import transaction

from punctual.conf import Settings
from punctual.execution.broker.dispatch import dispatch
from punctual.execution.ending.attempt_report import Report, report_of_row
from punctual.execution.ending.hook_calls import end_try, lock_calls, request_hooks
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import report_free
from punctual.execution.ending.settle import Settled
from punctual.execution.supervision.board import INTERRUPT_SIGNAL, BegunState, Board, Facts, StopCause
from punctual.execution.supervision.prefetch import Prefetch
from punctual.execution.supervision.relief import RELIEVE_AFTER, SlowBundle, relieve
from punctual.execution.supervision.verdict import Verdict, WatchedAttempt, ending, stop_times, verdict
from punctual.jobs.database_errors import is_database_away, unless_locked
from punctual.jobs.events import Event, emit
from punctual.jobs.ids import format_id
from punctual.occurrences import transitions
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import RUN_HELD, RunState

Clock = Callable[[], datetime]
LEDGER_INTERVAL = 0.4  # seconds between two reads of the ledger: a canceled run is notified within a second
RENEWALS_PER_LEASE = 3


@dataclass(frozen=True)
class Supervised:
    """What one pass did."""

    notified: int = 0
    renewed: int = 0
    interrupted: int = 0
    killed: int = 0
    ended: int = 0
    passed_on: int = 0
    relieved: int = 0


@dataclass(frozen=True)
class LostAttempt:
    """An attempt, or a call of a hook, that its process will not report any more."""

    facts: Facts
    process_gone: bool  # then the other runs it had claimed are lost as well
    result: Result | None  # None: recorded already
    bundle_result: Result  # for the other runs of its bundle that had begun and were not reported
    begun: Mapping[UUID, BegunState] = field(default_factory=dict)  # runs of its bundle, itself included


@dataclass
class Supervisor:
    board: Board
    settings: Settings
    stopping: bool = False  # set by a signal handler, which may do nothing else
    watched: dict[int, WatchedAttempt] = field(default_factory=dict)
    lost: list[LostAttempt] = field(default_factory=list)
    ledger_read: float = 0.0
    prefetch: Prefetch = field(default_factory=Prefetch)

    def run_once(self, *, at: float, clock: Clock) -> Supervised:
        """Steps that need no database come first: an outage must not keep a stuck function alive."""
        self._read_board()
        notified = self._notify_stopping(at) if self.stopping else 0
        verdicts = {serial: self._verdict(attempt, at) for serial, attempt in self.watched.items()}
        done = Supervised(
            notified=notified,
            interrupted=self._interrupt(_serials(verdicts, Verdict.INTERRUPT)),
            killed=self._kill(_serials(verdicts, Verdict.KILL)),
        )
        self._abandon(_serials(verdicts, Verdict.ABANDON))
        self._remove_dead(_serials(verdicts, Verdict.GONE))
        # If one of these fails, or another session holds a row that it needs, leases are still renewed.
        with independently("pass on"):
            done = replace(done, passed_on=self.prefetch.run_once(at=at, clock=clock, stopping=self.stopping))
        with independently("report"):
            done = replace(done, ended=self._report_lost(clock))
        with independently("relieve"):
            done = replace(done, relieved=self._relieve(at, clock))
        if at - self.ledger_read < LEDGER_INTERVAL or not (attempts := self._long_running(at)):
            return done
        self.ledger_read = at
        now = clock()
        with independently("notify"):
            done = replace(done, notified=notified + self._notify_canceled(attempts, at))
        with independently("progress"):
            self._store_progress(attempts)
        return replace(done, renewed=self._renew(attempts, at=at, now=now))

    # -- without the database -----------------------------------------------------------------------

    def _read_board(self) -> None:
        present = {facts.serial: facts for facts in self.board.attempts()}
        self.watched = {
            serial: replace(self.watched.get(serial, WatchedAttempt(facts, renewed=facts.since)), facts=facts)
            for serial, facts in present.items()
        }

    def _verdict(self, attempt: WatchedAttempt, at: float) -> Verdict:
        own_process = attempt.facts.pid == os.getpid()
        alive = own_process or exit_status(attempt.facts.pid) is None
        return verdict(attempt, at=at, alive=alive, killable=not own_process, settings=self.settings)

    def _notify_stopping(self, at: float) -> int:
        fresh = [attempt for attempt in self.watched.values() if attempt.cause is StopCause.NONE]
        for attempt in fresh:
            self._notify(attempt, StopCause.STOPPING, at)
        return len(fresh)

    def _notify(self, attempt: WatchedAttempt, cause: StopCause, at: float) -> None:
        self.board[attempt.facts.slot].notify(attempt.facts.serial, cause)
        self.watched[attempt.facts.serial] = replace(attempt, cause=cause, since=at)

    def _interrupt(self, serials: Sequence[int]) -> int:
        for serial in serials:
            attempt = self.watched[serial]
            self.board[attempt.facts.slot].interrupt(serial, stop_times(attempt, self.settings)[2])
            # The signal handler compares the serial: an attempt that has ended meanwhile, or the next one, is
            # not interrupted.
            _signal(attempt.facts.pid, INTERRUPT_SIGNAL)
            self.watched[serial] = replace(attempt, interrupted=True)
        return len(serials)

    def _kill(self, serials: Sequence[int]) -> int:
        """Kill the process first, and record the attempt when it is gone: two attempts never run at once."""
        for serial in serials:
            attempt = self.watched[serial]
            _signal(attempt.facts.pid, signal.SIGKILL)
            self.watched[serial] = replace(attempt, killed=True)
        return len(serials)

    def _abandon(self, serials: Sequence[int]) -> None:
        for serial in serials:
            attempt = self.watched[serial] = replace(self.watched[serial], abandoned=True)
            error = "cannot be killed in this kind of pool; its result will not count"
            self._add_lost(attempt, error, process_gone=False)

    def _remove_dead(self, serials: Sequence[int]) -> None:
        for serial in serials:
            attempt = self.watched.pop(serial)
            self._add_lost(attempt, exit_status(attempt.facts.pid) or "", process_gone=True)
            # Last: the next process of the pool may take the slot at once, and overwrite what was read.
            self.board[attempt.facts.slot].end()

    def _add_lost(self, attempt: WatchedAttempt, error: str, *, process_gone: bool) -> None:
        slot = self.board[attempt.facts.slot]
        end = ending(attempt, self.settings)
        log = slot.logged(attempt.facts.serial)
        result = replace(_result(attempt, end, error), log=log) if end else None
        bundle_result = Result(end or Ending.LOST, error_type="WorkerLost", error=error)
        begun = slot.begun(attempt.facts.token)
        self.lost.append(LostAttempt(attempt.facts, process_gone, result, bundle_result, begun))

    def _long_running(self, at: float) -> list[WatchedAttempt]:
        """Attempts that have run for a while: a short task costs no statement."""
        return [
            attempt
            for attempt in self.watched.values()
            if at - attempt.facts.since >= LEDGER_INTERVAL and not attempt.facts.hook
        ]

    # -- with the database --------------------------------------------------------------------------

    def _report_lost(self, clock: Clock) -> int:
        """Report lost attempts. They stay listed until that succeeds; tokens prevent a second record."""
        if not self.lost:
            return 0
        lost = list(self.lost)
        hooks, held = _end_hooks(lost, clock())
        reports, unbegun = _read_lost(lost)
        settled, left = report_free(reports, now=clock()) if reports else (Settled(), ())
        for token, ids in unbegun.items():
            transitions.hand_back(ids, token=token, now=clock())
        tokens = {item.begun.token for item in left} | held
        self.lost = [item for item in self.lost if item not in lost or item.facts.token in tokens]
        reports = [item for item in reports if item not in left]
        for item in reports:
            run, result = format_id("run", item.begun.run), item.result
            emit(Event.ATTEMPT_ENDED, run=run, ending=result.ending, how=result.error)
        sent = [*settled.released, *chain.from_iterable(unbegun.values())]
        dispatch(sent, now=clock(), chords=False, bundles=False)
        # Hooks are user code: a process of the pool calls them, or tries again.
        request_hooks([*settled.finished, *hooks])
        return len(reports) - settled.fenced

    def _relieve(self, at: float, clock: Clock) -> int:
        """Relieve bundles in which one function takes long, each once."""
        slow = [
            attempt
            for attempt in self.watched.values()
            if attempt.facts.running
            and not (attempt.facts.recorded or attempt.relieved)
            and at - attempt.facts.since >= RELIEVE_AFTER
        ]
        if not slow:
            return 0
        relieved = relieve([self._bundle(attempt, at) for attempt in slow], now=clock())
        for attempt in slow:
            self.board[attempt.facts.slot].note_reported(attempt.facts.token, relieved.reported)
            self.watched[attempt.facts.serial] = replace(attempt, relieved=True)
        return len(relieved.handed_back) + len(relieved.reported)

    def _bundle(self, attempt: WatchedAttempt, at: float) -> SlowBundle:
        facts = attempt.facts
        begun = self.board[facts.slot].begun(facts.token)
        return SlowBundle(facts.token, facts.run_id, timedelta(seconds=at - facts.since), begun)

    def _notify_canceled(self, attempts: Iterable[WatchedAttempt], at: float) -> int:
        current = {
            attempt.facts.run_id: attempt
            for attempt in attempts
            if attempt.cause is not StopCause.CANCELED and not attempt.given_up
        }
        rows = TaskRun.objects.filter(id__in=current).values_list("id", "claim_token")
        tokens: dict[UUID, UUID | None] = dict(rows)
        canceled = [attempt for id_, attempt in current.items() if tokens.get(id_) != attempt.facts.token]
        for attempt in canceled:
            self._notify(attempt, StopCause.CANCELED, at)
        return len(canceled)

    def _store_progress(self, attempts: Iterable[WatchedAttempt]) -> None:
        values = {item.facts: self.board[item.facts.slot].progress(item.facts.serial) for item in attempts}
        progress = {facts.run_id: value for facts, value in values.items() if value is not None}
        tokens = {facts.run_id: facts.token for facts in values}
        if progress:
            transitions.note_progress(progress, tokens=tokens)

    def _renew(self, attempts: Iterable[WatchedAttempt], *, at: float, now: datetime) -> int:
        interval = self.settings.lease.total_seconds() / RENEWALS_PER_LEASE
        due = [
            attempt
            for attempt in (self.watched[attempt.facts.serial] for attempt in attempts)
            if at - attempt.renewed >= interval
            and attempt.cause is not StopCause.CANCELED
            and not attempt.given_up
        ]
        if not due:
            return 0
        # Also earlier runs of its bundle: their results are reported when the function has returned.
        begun = [(item.facts.token, self.board[item.facts.slot].begun(item.facts.token)) for item in due]
        tokens = {run: token for token, runs in begun for run in runs}
        renewed = transitions.renew_all(tokens, now=now, lease=self.settings.lease)
        for attempt in due:
            if attempt.facts.run_id in renewed:  # the other rows are locked: the next pass tries again
                self.watched[attempt.facts.serial] = replace(attempt, renewed=at)
        return len(renewed)


def _end_hooks(lost: Iterable[LostAttempt], now: datetime) -> tuple[list[UUID], set[UUID]]:
    """Record lost calls of hooks: their occurrences, and tokens of calls whose rows other sessions hold."""
    calls = {item.facts.run_id: item for item in lost if item.facts.hook}
    if not calls:
        return [], set()
    with transaction.atomic():
        held = lock_calls(calls)
        for id_, item in calls.items():
            if id_ not in held and item.result is not None:
                end_try(id_, item.facts.token, item.result, now=now)
    ended = [item.facts.occurrence_id for id_, item in calls.items() if id_ not in held]
    return ended, {calls[id_].facts.token for id_ in held}


@contextmanager
def independently(step: str) -> Iterator[None]:
    """Keep the error of one step from the other steps, unless the database is away for all of them."""
    try:
        with unless_locked(step):
            yield
    except Exception as error:
        if is_database_away(error):
            raise
        emit(Event.SUPERVISOR_FAILED, step=step, error=repr(error))


def _read_lost(lost: Iterable[LostAttempt]) -> tuple[list[Report], dict[UUID, list[UUID]]]:
    """Read the runs that lost attempts hold: reports to write, and runs to hand back by token.

    A dead process loses all runs it had claimed. Those that had begun get a report, the others are handed
    back.
    """
    by_token = {attempt.facts.token: attempt for attempt in lost}
    reports: list[Report] = []
    unbegun = defaultdict(list)
    held = TaskRun.objects.filter(claim_token__in=by_token, state__in=RUN_HELD)
    for run in held.select_related("task", "occurrence"):
        attempt = by_token[run.claim_token or UUID(int=0)]
        was_running = run.id == attempt.facts.run_id
        if run.state == RunState.CLAIMED and run.id not in attempt.begun:
            if attempt.process_gone:
                unbegun[attempt.facts.token].append(run.id)
        elif was_running or attempt.process_gone:
            result = attempt.result if was_running else attempt.bundle_result
            if attempt.begun.get(run.id) is BegunState.SUCCEEDED:
                result = Result(Ending.SUCCESS)
            if result is not None:
                reports.append(report_of_row(run, attempt.facts.token, result))
    return reports, unbegun


def exit_status(pid: int) -> str | None:
    """How a child process ended; None while it lives. The pool still collects the process."""
    try:
        status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return "its process is gone"
    if status is None:
        return None
    if status.si_code == os.CLD_EXITED:
        return f"its process exited with {status.si_status}"
    return f"its process was ended by {signal.Signals(status.si_status).name}"


def _serials(verdicts: dict[int, Verdict], wanted: Verdict) -> list[int]:
    return [serial for serial, decision in verdicts.items() if decision is wanted]


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # the next pass finds it gone
        os.kill(pid, number)


ERROR_TYPES = {Ending.TIMEOUT: "TaskTimeout", Ending.LOST: "WorkerLost", Ending.RELEASED: ""}


def _result(attempt: WatchedAttempt, end: Ending, error: str) -> Result:
    seconds = attempt.facts.limit - attempt.facts.since
    text = f"still running after {seconds:g} s; {error}" if end is Ending.TIMEOUT else error
    return Result(end, error_type=ERROR_TYPES[end], error=text)
