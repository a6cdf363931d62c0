"""Resend the runs of messages that this worker has prefetched and cannot start.

A worker prefetches a few messages more than it has processes, so that a process does not wait for the broker
between two short runs. Behind a long run such a message would wait although other workers are idle. Its runs
are sent once more; of two messages with the same run the claim drops the second. Each message is passed on
once, so that a backlog spread over all workers does not grow.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from celery.worker import state

from punctual.execution.broker.dispatch import dispatch
from punctual.execution.broker.messages import RUN
from punctual.jobs.events import Event, emit
from punctual.occurrences.models import TaskRun

Clock = Callable[[], datetime]
Messages = dict[str, tuple[UUID, ...]]  # runs by message id
PASS_ON_AFTER = 0.5  # seconds a message may wait in a worker that has no process free for it
LAST_DELIVERY = 1.5  # seconds after the stop in which the broker may still answer the worker's last poll
MAX_PASSED_ON_AT_STOP = 500


def waiting_messages() -> Messages:
    """Messages that Celery has received in this worker and not started."""
    try:
        started = {request.id for request in tuple(state.active_requests)}
        reserved = [item for item in tuple(state.reserved_requests) if item.task.name == RUN]
    except RuntimeError:
        return {}  # the worker's main thread changed the set meanwhile: the next pass looks again
    return {item.id: runs_of(item.args) for item in reserved if item.id not in started}


def runs_of(args: Any) -> tuple[UUID, ...]:
    """The runs in the arguments of a message; none if they are not ours."""
    try:
        (run_ids,) = args
        return tuple(UUID(id_) for id_ in run_ids)
    except (ValueError, TypeError, AttributeError):
        return ()


@dataclass
class Prefetch:
    read: Callable[[], Messages] = dict
    messages: Messages = field(default_factory=dict)  # as of the last pass
    since: dict[str, float] = field(default_factory=dict)  # when each message was first seen waiting
    passed_on: set[str] = field(default_factory=set)
    stopped: tuple[float, datetime] | None = None  # when the worker was told to stop
    left: bool = False

    def run_once(self, *, at: float, clock: Clock, stopping: bool) -> int:
        """The number of runs that were sent again."""
        return self._pass_on_all(at, clock) if stopping else self._pass_on_late(at, clock)

    def _pass_on_late(self, at: float, clock: Clock) -> int:
        self.messages = self.read()
        self.since = {message: self.since.get(message, at) for message in self.messages}
        self.passed_on &= self.messages.keys()
        late = [message for message, since in self.since.items() if at - since >= PASS_ON_AFTER]
        fresh = [message for message in late if message not in self.passed_on]
        self.passed_on |= set(fresh)
        return _resend([run for message in fresh for run in self.messages[message]], clock)

    def _pass_on_all(self, at: float, clock: Clock) -> int:
        """A stopping worker gives its messages back when it exits; other workers get the runs at once.

        They are sent when the stop is noticed, and once more when the worker's last poll must have been
        answered: the answer is a message that this worker no longer reads.
        """
        if self.stopped is None:
            self.stopped = (at, clock())
            return _resend([run for runs in self.messages.values() for run in runs], clock)
        since, stopped_at = self.stopped
        if at - since < LAST_DELIVERY or self.left:
            return 0
        self.left = True
        latest = stopped_at + timedelta(seconds=LAST_DELIVERY)
        unclaimed = TaskRun.objects.unclaimed(latest).filter(dispatched_at__gte=stopped_at)
        return _resend(list(unclaimed.values_list("id", flat=True)[:MAX_PASSED_ON_AT_STOP]), clock)


def _resend(runs: list[UUID], clock: Clock) -> int:
    if not runs:
        return 0
    now = clock()
    sent = dispatch(runs, now=now, chords=False, lost_since=now).sent
    if sent:
        emit(Event.RUN_RESENT, waiting=len(runs), sent=sent)
    return sent
