"""The claimed runs of one message → which is next, what is done, what goes back.

The time budget is what its functions may take together: a database that is slow today must not make
every bundle fall apart into single messages, which would only add to its load. No bundle lasts longer
than a second, though, whatever the reason.

Two threads share a bundle: the one that calls the functions, and the watcher, which relieves it when
its time budget has passed while a function still runs. What either of them takes, the other no longer
sees; and should the process die in between, its slot tells who had begun and who had not.
"""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from threading import Lock

from django.db import transaction

from execution.bundling import BUDGET
from execution.claim import Claim, begin, hand_back, record
from execution.dispatch import dispatch
from execution.report import Report, report
from execution.settle import Settled, lock
from execution.slots import board

LONGEST = 10 * BUDGET  # seconds from the claim on

Clock = Callable[[], datetime]
Stopwatch = Callable[[], float]


class Bundle:
    def __init__(self, claims: Sequence[Claim], *, clock: Clock, stopwatch: Stopwatch) -> None:
        self._clock, self._stopwatch = clock, stopwatch
        self._ends = stopwatch() + LONGEST
        self._spent = 0.0
        self._since: float | None = None
        self._waiting = deque(claims)
        self._current: Claim | None = None
        self._done: list[Report] = []
        self._lock = Lock()

    def next(self) -> Claim | None:
        """The next run, begun; None when all are done or the rest was handed back."""
        while item := self._first():
            if item.begun:
                return self._started(item)
            if self.left() <= 0 or board.stopping:
                self._hand_back([item, *self._rest()])
                return None
            if begun := begin(item, now=self._clock()):
                return self._started(begun)  # otherwise its lease has run out: no longer ours
        return None

    def ended(self) -> None:
        """Its function has returned, or raised."""
        with self._lock:
            self._spent, self._since, self._current = self._spent + self._running(), None, None

    def done(self, ended: Report) -> None:
        with self._lock:
            self._done.append(ended)

    def left(self) -> float:
        """Seconds of its budget, if the function that runs goes on running."""
        with self._lock:
            return min(BUDGET - self._spent - self._running(), self._ends - self._stopwatch())

    def report(self) -> Settled:
        """Record what is done, in one transaction."""
        with self._lock:
            reports, self._done = self._done, []
        if not reports:
            return Settled()
        try:
            return report(reports, now=self._clock())
        except BaseException:
            with self._lock:
                self._done = reports + self._done
            raise

    def relieve(self) -> Settled:
        """While a function still runs: hand back what waits, record what is done, and that one's attempt."""
        self._hand_back(self._rest())
        settled = self.report()
        with self._lock:
            current = self._current
        if current is not None and not current.recorded:
            # It may end just now, and be reported: whoever comes second finds the attempt a row.
            with transaction.atomic():
                lock([current.run.occurrence_id])
                record([current], now=self._clock())
        return settled

    def _started(self, item: Claim) -> Claim:
        with self._lock:
            self._since, self._current = self._stopwatch(), item
        return item

    def _running(self) -> float:
        return 0.0 if self._since is None else self._stopwatch() - self._since

    def _first(self) -> Claim | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _rest(self) -> list[Claim]:
        with self._lock:
            taken, self._waiting = list(self._waiting), deque()
        return taken

    def _hand_back(self, items: Sequence[Claim]) -> None:
        """A crash in here delays them by a lease at most: unstarted claims expire without a trace."""
        now = self._clock()
        dispatch(hand_back(items, now=now), now=now, chords=False, bundles=False)
