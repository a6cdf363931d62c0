"""Messages a worker has taken ahead and cannot begin → sent once more, so that whoever is free may have them.

Of two messages with the same run the second is dropped. Each is passed on once: a backlog of which everybody
holds a part must not grow by being passed on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from execution.dispatch import dispatch
from execution.prefetched import Waiting
from jobs.events import Event, emit
from occurrences.models import TaskRun

Clock = Callable[[], datetime]
PASSED_ON_AFTER = 0.5  # seconds a message may wait in a worker that has no process free for it
LAST_ANSWER = 1.5  # seconds: kombu asks Redis for a message and waits a second for it
MOST_LEFT = 500


@dataclass
class Ahead:
    waiting: Callable[[], Waiting] = dict
    held: Waiting = field(default_factory=dict)  # as they were last seen
    since: dict[str, float] = field(default_factory=dict)  # when each was first seen to wait
    passed_on: set[str] = field(default_factory=set)
    told: tuple[float, datetime] | None = None  # to stop, and when
    left: bool = False

    def run_once(self, *, at: float, clock: Clock, stopping: bool) -> int:
        """How many runs were sent again."""
        return self._leave(at, clock) if stopping else self._pass_on(at, clock)

    def _pass_on(self, at: float, clock: Clock) -> int:
        self.held = self.waiting()
        self.since = {message: self.since.get(message, at) for message in self.held}
        self.passed_on &= self.held.keys()
        due = [message for message, since in self.since.items() if at - since >= PASSED_ON_AFTER]
        fresh = [message for message in due if message not in self.passed_on]
        self.passed_on |= set(fresh)
        return _send_again([run for message in fresh for run in self.held[message]], clock)

    def _leave(self, at: float, clock: Clock) -> int:
        """A worker that stops gives its messages back when it is gone; others shall have the runs at once.

        Once when it was told, and once more when its last question to the broker must have been answered:
        the answer is a message that nobody here reads any more.
        """
        if self.told is None:
            self.told = (at, clock())
            return _send_again([run for runs in self.held.values() for run in runs], clock)
        since, moment = self.told
        if at - since < LAST_ANSWER or self.left:
            return 0
        self.left = True
        latest = moment + timedelta(seconds=LAST_ANSWER)
        sent = TaskRun.objects.unclaimed(latest).filter(dispatched_at__gte=moment)
        return _send_again(list(sent.values_list("id", flat=True)[:MOST_LEFT]), clock)


def _send_again(runs: list[UUID], clock: Clock) -> int:
    if not runs:
        return 0
    now = clock()
    sent = dispatch(runs, now=now, chords=False, lost_since=now).sent
    if sent:
        emit(Event.RUN_RESENT, waiting=len(runs), sent=sent)
    return sent
