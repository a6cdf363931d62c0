"""Keep account of the claimed runs of one message: which is next, which results are ready, which go back.

The time budget is what the functions may take together. Time spent in the database does not count: a slow
database must not split every bundle into single messages, which would add to its load. But no bundle lasts
longer than `MAX_DURATION`, whatever the reason.

Two threads share a bundle: the main thread, which calls the functions, and the watcher, which relieves it
when the budget is spent while a function still runs. A claim or report that one of them has taken is not seen
by the other. If the process dies in between, its slot tells the supervisor which runs had begun.
"""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from threading import Lock

from django.db import transaction

from punctual.execution.broker.bundling import BUDGET
from punctual.execution.broker.dispatch import dispatch
from punctual.execution.ending.report import Report, report
from punctual.execution.ending.settle import Settled, lock_occurrences
from punctual.execution.supervision.board import board
from punctual.execution.worker.claim import Claim, begin, hand_back, record_attempts

MAX_DURATION = 10 * BUDGET  # seconds after the claim

Clock = Callable[[], datetime]
Stopwatch = Callable[[], float]


class ClaimedBundle:
    def __init__(self, claims: Sequence[Claim], *, clock: Clock, stopwatch: Stopwatch) -> None:
        self._clock, self._stopwatch = clock, stopwatch
        self._ends = stopwatch() + MAX_DURATION
        self._spent = 0.0
        self._since: float | None = None
        self._waiting = deque(claims)
        self._current: Claim | None = None
        self._reports: list[Report] = []
        self._lock = Lock()

    def next(self) -> Claim | None:
        """Begin the next run; None when all are done or the rest was handed back."""
        while item := self._take_first():
            if item.begun:
                return self._start_timing(item)
            if self.seconds_left() <= 0 or board.stopping:
                self._hand_back([item, *self._take_rest()])
                return None
            if begun := begin(item, now=self._clock()):
                return self._start_timing(begun)
            # Otherwise its lease has expired, and another worker may have it.
        return None

    def stop_timing(self) -> None:
        """The function has returned, or raised."""
        with self._lock:
            self._spent, self._since, self._current = self._spent + self._running(), None, None

    def add_report(self, item: Report) -> None:
        with self._lock:
            self._reports.append(item)

    def seconds_left(self) -> float:
        """What is left of the budget, including the time of the function that runs now."""
        with self._lock:
            return min(BUDGET - self._spent - self._running(), self._ends - self._stopwatch())

    def report(self) -> Settled:
        """Write the results that are ready, in one transaction."""
        with self._lock:
            reports, self._reports = self._reports, []
        if not reports:
            return Settled()
        try:
            return report(reports, now=self._clock())
        except BaseException:
            with self._lock:
                self._reports = reports + self._reports
            raise

    def relieve(self) -> Settled:
        """While a function runs: hand back waiting runs, write results, record the running attempt."""
        self._hand_back(self._take_rest())
        settled = self.report()
        with self._lock:
            current = self._current
        if current is not None and not current.recorded:
            # The function may end now and be reported by the main thread: the second of the two writers finds
            # that the attempt is a row already.
            with transaction.atomic():
                lock_occurrences([current.run.occurrence_id])
                record_attempts([current], now=self._clock())
        return settled

    def _start_timing(self, item: Claim) -> Claim:
        with self._lock:
            self._since, self._current = self._stopwatch(), item
        return item

    def _running(self) -> float:
        return 0.0 if self._since is None else self._stopwatch() - self._since

    def _take_first(self) -> Claim | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _take_rest(self) -> list[Claim]:
        with self._lock:
            rest, self._waiting = list(self._waiting), deque()
        return rest

    def _hand_back(self, items: Sequence[Claim]) -> None:
        """If the process dies in here, the runs wait until their lease expires; it costs them no attempt."""
        now = self._clock()
        dispatch(hand_back(items, now=now), now=now, chords=False, bundles=False)
