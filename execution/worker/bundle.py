"""Work off the claimed runs of one message within a time budget, and report them together.

The functions of a bundle share `BUDGET` seconds. What has not begun when they are spent is handed back, so
that other workers can run it, and no bundle lasts longer than `MAX_DURATION`, whatever the reason.

If one function takes long, the supervisor relieves the bundle: it hands back what has not begun, and reports
the successes that this process noted in its slot (`punctual.execution.supervision.relief`).
"""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime

from punctual.execution.broker.bundling import BUDGET
from punctual.execution.broker.dispatch import dispatch
from punctual.execution.ending.attempt_report import Report, report_of_claim
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import report
from punctual.execution.ending.settle import Settled
from punctual.execution.supervision.board import BegunState, board
from punctual.execution.worker.claim import Claim, begin, hand_back

MAX_DURATION = 10 * BUDGET  # seconds after the claim

Clock = Callable[[], datetime]
Stopwatch = Callable[[], float]


class ClaimedBundle:
    def __init__(self, claims: Sequence[Claim], *, clock: Clock, stopwatch: Stopwatch) -> None:
        self._clock, self._stopwatch = clock, stopwatch
        self._ends = stopwatch() + MAX_DURATION
        self._spent = 0.0
        self._since = 0.0
        self._waiting = deque(claims)
        self._reports: list[Report] = []

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
            board.own_slot().succeeded()

    def report(self) -> Settled:
        """Write the results in one statement, except those that the supervisor has reported."""
        begun = board.own_slot().begun(self._reports[0].begun.token) if self._reports else {}
        reports = [item for item in self._reports if begun.get(item.begun.run) is not BegunState.REPORTED]
        settled = report(reports, now=self._clock()) if reports else Settled()
        self._reports = []
        return settled

    def _is_over(self) -> bool:
        return self._spent >= BUDGET or self._stopwatch() >= self._ends or board.stopping

    def _hand_back(self, items: Sequence[Claim]) -> None:
        """If the process dies in here, the runs wait until their lease expires; it costs them no attempt."""
        self._waiting.clear()
        now = self._clock()
        dispatch(hand_back(items, now=now), now=now, chords=False, bundles=False)
