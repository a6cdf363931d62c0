"""Claim the runs of a message, begin them one by one within a time budget, and report them together (TSK-2).

The only run of a message begins its attempt with the claim. The runs of a bundle are claimed together and
begin one after the other in memory. Their attempts become rows with their results, in one statement for all,
or as soon as one of them takes long (`record_attempts`). Until then the worker's shared memory says which
runs have begun, in case the process dies. If the whole worker dies, each run of the bundle may have begun,
and its attempt says so.

The functions of a bundle share `BUDGET` seconds. What has not begun when they are spent is handed back, so
that other workers can run it, and no bundle lasts longer than `MAX_DURATION`, whatever the reason. If one
function takes long, the supervisor relieves the bundle: it hands back what has not begun, and reports the
successes that this process noted in its slot (`punctual.execution.supervision.relief`).

If nothing can be claimed, the message was resent or is outdated, and it is ignored silently.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db import OperationalError

from punctual.execution.broker.bundling import BUDGET
from punctual.execution.broker.dispatch import dispatch
from punctual.execution.ending.attempt_report import Begun, Report
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import report
from punctual.execution.ending.settle import FailedAttempt, Settled
from punctual.execution.supervision.board import BegunState, Slot, board
from punctual.jobs.clock import Clock
from punctual.jobs.database_errors import is_lock_conflict
from punctual.jobs.events import Event, emit
from punctual.jobs.ids import attempt_id
from punctual.occurrences import transitions
from punctual.occurrences.engines.contract import ClaimedRun, Take
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import RunState

LEASE = timedelta(seconds=30)
FORESEEN = 2  # attempts of a single run whose ids its claim knows; later ones are recorded as in a bundle
MAX_DURATION = 10 * BUDGET  # seconds after the claim
MAX_SENDER_WAITS = 5  # each as long as a claim waits for a lock

Stopwatch = Callable[[], float]


@dataclass(frozen=True)
class Claim:
    run: ClaimedRun
    token: UUID
    worker: str
    lease_until: datetime
    number: int  # of its attempt
    attempt_id: UUID
    began_at: datetime | None = None
    recorded: bool = True  # its attempt is a row

    @property
    def begun(self) -> Begun:
        return Begun(self.run.id, self.attempt_id, self.number, self.token, self.worker, self.started_at)

    @property
    def started_at(self) -> datetime:
        return self.began_at or self.run.run_at


def claim(
    run_ids: Sequence[UUID], *, worker: str, now: datetime, lease: timedelta = LEASE
) -> tuple[Claim, ...]:
    """In the order of the message. A message's only run has begun, those of a bundle have not."""
    numbers = range(FORESEEN) if len(run_ids) == 1 else ()
    attempts = tuple(attempt_id(run_ids[0], number) for number in numbers)
    take = Take(uuid4(), worker, now, now + lease, attempts)
    try:
        runs = transitions.claim(run_ids, take)
    except OperationalError as error:
        if not is_lock_conflict(error):
            raise
        runs = _claim_blocked(run_ids, take)
    if any(run.occurrence.started_at is None for run in runs):
        runs = _with_start_times(runs)
    if len(runs) > 1:
        places = {id_: place for place, id_ in enumerate(run_ids)}
        runs.sort(key=lambda run: places[run.id])
    return tuple(_claim(run, take) for run in runs)


def _claim_blocked(run_ids: Sequence[UUID], take: Take) -> list[ClaimedRun]:
    """Another session holds rows of the message. The sender of the message does so until the broker has
    confirmed; any other session is not waited for, and the sweeper sends the rest again."""
    unsent = TaskRun.objects.filter(id__in=run_ids, state=RunState.SCHEDULED, dispatched_at=None)
    for _ in range(MAX_SENDER_WAITS):
        if not unsent.exists():
            break
        with suppress(OperationalError):
            return transitions.claim(run_ids, take)
    runs = transitions.claim_free(run_ids, take)
    emit(Event.CLAIM_BLOCKED, runs=len(run_ids) - len(runs), worker=take.worker)
    return runs


def _claim(run: ClaimedRun, take: Take) -> Claim:
    number = run.attempts_made - run.begun
    attempt = take.attempts[number] if run.begun else attempt_id(run.id, number)
    began_at = run.started_at if run.begun else None
    return Claim(run, take.token, take.worker, take.lease_until, number, attempt, began_at, run.begun)


def _with_start_times(runs: list[ClaimedRun]) -> list[ClaimedRun]:
    """Read when occurrences started that the claim of a neighbour started at the same moment."""
    unknown = {run.occurrence.id for run in runs if run.occurrence.started_at is None}
    rows = Occurrence.objects.filter(id__in=unknown).values_list("id", "started_at", "deadline_at")
    times = {id_: (started_at, deadline_at) for id_, started_at, deadline_at in rows}
    return [_started(run, *times[run.occurrence.id]) if run.occurrence.id in times else run for run in runs]


def _started(run: ClaimedRun, started_at: datetime | None, deadline_at: datetime | None) -> ClaimedRun:
    return run._replace(occurrence=run.occurrence._replace(started_at=started_at), deadline_at=deadline_at)


def begin(item: Claim, *, now: datetime) -> Claim | None:
    """Begin a claimed run just before its function is called; None if its lease has expired."""
    return replace(item, began_at=now) if now < item.lease_until else None


def hand_back(items: Sequence[Claim], *, now: datetime) -> tuple[UUID, ...]:
    """Give up runs that have not begun: another worker may claim them, and it costs them no attempt."""
    ids = [item.run.id for item in items]
    if not ids:
        return ()
    transitions.hand_back(ids, token=items[0].token, now=now)
    return tuple(ids)


def report_of_claim(claim: Claim, result: Result) -> Report:
    run = claim.run
    return Report(
        claim.begun,
        run.occurrence.id,
        run.task,
        run.policy,
        run.snoozes,
        result,
        claim.recorded,
        run if run.alone else None,
        run.occurrence.job,
    )


class ClaimedBundle:
    """The claims of one message, of which the process begins one after the other."""

    def __init__(self, claims: Sequence[Claim], slot: Slot, *, clock: Clock, stopwatch: Stopwatch) -> None:
        self._slot, self._clock, self._stopwatch = slot, clock, stopwatch
        self._ends = stopwatch() + MAX_DURATION
        self._spent = 0.0
        self._since = 0.0
        self._waiting = deque(claims)
        self._reports: list[Report] = []
        self.failed: list[FailedAttempt] = []

    def next(self) -> Claim | None:
        """Begin the next run; None when all are done or the rest was handed back."""
        while self._waiting:
            item = self._waiting.popleft()
            self._since = self._stopwatch()
            if item.began_at is not None:
                return item
            if self._is_over():
                self._hand_back([item, *self._waiting])
                return None
            if begun := begin(item, now=self._clock()):
                return begun
            # Otherwise its lease has expired, and another worker may have it.
        return None

    @property
    def has_waiting(self) -> bool:
        """Whether runs of the bundle have not begun yet."""
        return bool(self._waiting)

    def stop_timing(self) -> None:
        """The function has returned, or raised."""
        self._spent += self._stopwatch() - self._since

    def add_result(self, item: Claim, result: Result) -> None:
        self._reports.append(report_of_claim(item, result))
        if result.ending is Ending.SUCCESS and not result.log:
            self._slot.succeeded()

    def report(self) -> Settled:
        """Write the results in one statement, except those that the supervisor has reported."""
        reports = self._reports
        if reports and not reports[0].recorded:
            begun = self._slot.begun(reports[0].begun.token)
            reports = [item for item in reports if begun.get(item.begun.run) is not BegunState.REPORTED]
        settled = report(reports, now=self._clock()) if reports else Settled()
        self._reports = []
        self.failed += settled.failed
        return settled

    def _is_over(self) -> bool:
        return self._spent >= BUDGET or self._stopwatch() >= self._ends or board.stopping

    def _hand_back(self, items: Sequence[Claim]) -> None:
        """If the process dies in here, the runs wait until their lease expires; it costs them no attempt."""
        self._waiting.clear()
        now = self._clock()
        dispatch(hand_back(items, now=now), now=now, chords=False, bundles=False)
