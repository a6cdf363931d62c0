"""Receive messages in the worker's parent process; reject, count and log those that cannot be read.

A message that Celery cannot handle would end the worker, be given back to its queue, and end the next worker.
Here it is taken from the queue instead. Nothing is lost: the sweeper resends a run whose message no worker
took. The counts are kept in memory until the supervisor writes them: the loop that receives messages must not
wait for the database.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Lock
from typing import Any

from celery import bootsteps
from celery.utils.log import get_logger
from django.db.models import F

from punctual.execution.broker.brokers import broker_of
from punctual.execution.broker.message_shape import Problem, find_problem
from punctual.execution.models import Rejection
from punctual.execution.worker.failure import storable_text
from punctual.jobs.events import Event, emit

MAX_SAMPLE_LENGTH = 2_000
Clock = Callable[[], datetime]
logger = get_logger(__name__)


@dataclass(frozen=True)
class Rejected:
    """Messages of one queue that were rejected for one reason since the last write."""

    count: int
    worker: str
    sample: str


class RejectionCounts:
    """Counts of this worker that are not rows yet."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, Problem], Rejected] = {}
        self._lock = Lock()

    def add(self, queue: str, problem: Problem, rejected: Rejected) -> None:
        with self._lock:
            earlier = self._counts.get((queue, problem))
            count = rejected.count + (earlier.count if earlier else 0)
            self._counts[queue, problem] = replace(rejected, count=count)

    def write(self, clock: Clock) -> int:
        """Add the counts to their rows. If the database is away, the next call writes them."""
        if not self._counts:
            return 0
        with self._lock:
            counts, self._counts = self._counts, {}
        written = 0
        try:
            for (queue, problem), rejected in list(counts.items()):
                _write(queue, problem, rejected, now=clock())
                written += counts.pop((queue, problem)).count
        finally:
            for (queue, problem), rejected in counts.items():
                self.add(queue, problem, rejected)
        return written


def _write(queue: str, problem: Problem, rejected: Rejected, *, now: datetime) -> None:
    row = Rejection(queue=queue, problem=problem, last_at=now)
    Rejection.objects.bulk_create([row], ignore_conflicts=True)
    Rejection.objects.filter(queue=queue, problem=problem).update(
        count=F("count") + rejected.count, last_at=now, worker=rejected.worker, sample=rejected.sample
    )


rejections = RejectionCounts()


class CheckedIntake(bootsteps.StartStopStep):
    """A part of Celery's worker: puts the check before the handlers of its consumer, and of no other."""

    requires = ("celery.worker.consumer.tasks:Tasks",)  # opens the channel; messages arrive after all steps

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        create, decode_error = parent.create_task_handler, parent.on_decode_error
        unknown, invalid = parent.on_unknown_message, parent.on_invalid_task

        def on_decode_error(message: Any, error: Exception) -> None:
            note_rejection(parent, message, Problem.UNREADABLE, repr(error))
            decode_error(message, error)

        def on_unknown_message(body: Any, message: Any) -> None:
            note_rejection(parent, message, Problem.UNREADABLE, "no task is named")
            unknown(body, message)

        def on_invalid_task(body: Any, message: Any, error: Exception) -> None:
            note_rejection(parent, message, Problem.MALFORMED, repr(error))
            invalid(body, message, error)

        # Celery's consumer reads these when it starts to receive.
        parent.create_task_handler = lambda: checked_handler(parent, create())
        parent.on_decode_error, parent.on_unknown_message = on_decode_error, on_unknown_message
        parent.on_invalid_task = on_invalid_task

    def start(self, parent: Any) -> None:
        def on_error(error: Exception) -> None:
            note_rejection(parent, None, Problem.UNREADABLE, repr(error))

        broker_of(str(parent.app.conf.broker_url)).guard(parent.task_consumer.channel, on_error)


def checked_handler(consumer: Any, receive: Callable[[Any], Any]) -> Callable[[Any], Any]:
    broker_errors = (*consumer.connection_errors, *consumer.channel_errors)

    def on_task_received(message: Any) -> Any:
        problem = find_problem(message, consumer.strategies)
        if problem is not None:
            return reject(consumer, message, *problem)
        slots = getattr(consumer.controller, "semaphore", None)
        free = slots.value if slots else 0
        try:
            return receive(message)
        except Exception as error:  # it would end the worker, and then the next one
            # kombu lists KeyError among the errors of a lost connection.
            if isinstance(error, broker_errors) and not isinstance(error, KeyError):
                raise
            if slots and slots.value < free:
                slots.release()  # the message had taken a slot of the pool
            return reject(consumer, message, Problem.MALFORMED, repr(error))

    return on_task_received


def reject(consumer: Any, message: Any, problem: Problem, detail: str) -> None:
    note_rejection(consumer, message, problem, detail)
    if not message.acknowledged:
        message.reject_log_error(logger, consumer.connection_errors)


def note_rejection(consumer: Any, message: Any, problem: Problem, detail: str) -> None:
    queue = _queue_of(consumer, message)
    sample = f"{detail}\n{getattr(message, 'headers', '')!r}\n{getattr(message, 'body', '')!r}"
    sample = storable_text(sample[: 2 * MAX_SAMPLE_LENGTH])[:MAX_SAMPLE_LENGTH]
    emit(Event.MESSAGE_REJECTED, queue=queue, problem=problem, detail=sample)
    rejections.add(queue, problem, Rejected(1, str(consumer.hostname), sample))


def _queue_of(consumer: Any, message: Any) -> str:
    """The queue it came from, if that is one of the worker's; a message may name any."""
    place = getattr(message, "delivery_info", None)
    name = place.get("routing_key") if isinstance(place, dict) else None
    return name if isinstance(name, str) and name in consumer.app.amqp.queues.consume_from else ""
