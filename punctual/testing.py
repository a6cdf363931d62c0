"""For tests of your own jobs: drive plan, fire, work and sweep by hand, with a clock you set.

    pytest_plugins = ["punctual.testing"]

    def test_the_report_is_sent_each_morning(punctual):
        punctual.start_at("2026-01-05 08:59 UTC")
        punctual.live(minutes=2)
        assert punctual.states("morning-report") == ["completed", "pending"]

Nothing of the platform is replaced: rows are real, messages go through Celery (an in-memory broker),
and your functions are called as a worker would call them. Time only passes when you say so.

This module is a door at the far right of the import order; it lives here because users look here.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from queue import Empty
from typing import Any
from uuid import UUID

import pytest
from celery import current_app
from kombu import Message

from punctual.beat import tick
from punctual.execution.broker.bundling import paces
from punctual.execution.broker.messages import RUN
from punctual.execution.worker.claim import Claim, claim
from punctual.execution.worker.work import settle_now, work
from punctual.jobs.declaration.sync import Synced, sync
from punctual.jobs.ids import job_id
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.planning import pauses

START = datetime(2026, 1, 5, 12, 0, 30, tzinfo=UTC)  # half a minute into a minute, on a Monday


@dataclass
class Harness:
    now: datetime = START
    received: list[tuple[str, list[Any]]] = field(default_factory=list)
    worked: list[UUID] = field(default_factory=list)

    def __post_init__(self) -> None:
        paces.forget()  # what other tests' functions took says nothing about yours

    # -- time ------------------------------------------------------------------------------------

    def start_at(self, instant: datetime | str) -> Synced:
        """Set the clock and write the declared jobs, as a deployment at that moment would."""
        self.now = instant if isinstance(instant, datetime) else _instant(instant)
        return self.sync()

    def pass_time(self, **span: float) -> datetime:
        """Move the clock, and nothing else: `pass_time(minutes=5)`."""
        self.now += timedelta(**span)
        return self.now

    def live(self, *, step: float = 1, **span: float) -> None:
        """Let beat and workers go on together for a while, second by second: `live(minutes=2)`."""
        end = self.now + timedelta(**span)
        while self.now < end:
            self.pass_time(seconds=step)
            self.tick()
            self.work()

    def clock(self) -> datetime:
        return self.now

    def stopwatch(self) -> float:
        return self.now.timestamp()

    # -- beat ------------------------------------------------------------------------------------

    def sync(self) -> Synced:
        """Write the declared jobs."""
        return sync(self.now)

    def tick(self, *, sweeping: bool = True) -> tick.Ticked:
        """One tick of a beat: plan what is next, fire what is due, sweep."""
        return tick.run_once(self.now, sweeping=sweeping)

    # -- operators -------------------------------------------------------------------------------

    def pause(self, job: str, *, until: datetime | None = None, backlog: str = "none") -> bool:
        """Pause a job at the harness's time, as `punctual.pause` does."""
        return pauses.pause(job_id(job), until=until, backlog=backlog, clock=self.clock)

    def resume(self, job: str, *, backlog: str = "none") -> bool:
        """Resume a job at the harness's time, as `punctual.resume` does."""
        return pauses.resume(job_id(job), backlog=backlog, clock=self.clock)

    # -- workers ---------------------------------------------------------------------------------

    def work(self) -> int:
        """Work off every message there is, and those that follow; how many runs were attempted."""
        before = len(self.worked)
        while self.step():
            pass
        return len(self.worked) - before

    def step(self, queue: str = "default") -> bool:
        """Work off one message; False when there is none."""
        message = self.take(queue)
        if message is None:
            return False
        name, argument = message
        if name == RUN:
            runs = [UUID(id_) for id_ in argument]
            self.worked += runs[: work(runs, worker="harness/1", clock=self.clock, stopwatch=self.stopwatch)]
        else:
            settle_now([UUID(argument)], clock=self.clock)
        return True

    def crash_worker(self) -> tuple[Claim, ...]:
        """A worker takes a message, claims its runs, and is never heard of again."""
        message = self.take()
        if message is None:
            raise LookupError("there is no message for a worker to crash on")
        return claim([UUID(id_) for id_ in message[1]], worker="doomed/1", now=self.now)

    def take(self, queue: str = "default") -> tuple[str, Any] | None:
        with current_app.connection_for_read() as connection:
            declared: Any = current_app.amqp.queues[queue]
            simple = connection.SimpleQueue(declared)
            with suppress(Empty):
                message: Message = simple.get_nowait()
                message.ack()
                args, _, _ = message.payload
                self.received.append((str(message.headers["id"]), args))
                return message.headers["task"], args[0]
        return None

    def lose_messages(self) -> int:
        """The broker forgets everything it held."""
        lost = 0
        while self.take() is not None:
            lost += 1
        return lost

    # -- looking ---------------------------------------------------------------------------------

    def occurrences(self, job: str) -> list[Occurrence]:
        return list(Occurrence.objects.filter(job=job_id(job)).order_by("scheduled_for", "run_at"))

    def states(self, job: str) -> list[str]:
        """The states of a job's occurrences, earliest first; the last is usually `pending`."""
        return [row.state for row in self.occurrences(job)]

    def finished(self, job: str) -> list[str]:
        return [row.state for row in self.occurrences(job) if row.finished_at]

    def runs(self, job: str) -> list[TaskRun]:
        rows = TaskRun.objects.filter(occurrence__job=job_id(job)).select_related("task")
        return list(rows.order_by("occurrence__scheduled_for", "position"))

    def attempts(self, job: str) -> list[Attempt]:
        rows = Attempt.objects.filter(run__occurrence__job=job_id(job))
        return list(rows.order_by("run__occurrence__scheduled_for", "run__position", "number"))


@pytest.fixture
def punctual(db: None) -> Iterator[Harness]:  # noqa: ARG001 - the database is wanted for its effect
    """The platform in your hand, on your test database and a broker in memory."""
    with memory_broker():
        yield Harness()


@contextmanager
def memory_broker() -> Iterator[None]:
    """Celery publishes into this process, single messages only: no result store counts a chord's members."""
    conf: Any = current_app.conf
    kept = conf.broker_url, conf.result_backend
    conf.broker_url, conf.result_backend = "memory://", None
    _forget_connections()
    Harness().lose_messages()
    try:
        yield
    finally:
        conf.broker_url, conf.result_backend = kept
        _forget_connections()


def _forget_connections() -> None:
    """Celery keeps its pools for the broker it first met; it forgets them the same way after a fork."""
    app: Any = current_app
    app._pool = None  # noqa: SLF001
    app.amqp._producer_pool = None  # noqa: SLF001


def _instant(text: str) -> datetime:
    """`2026-01-05 08:59 UTC`, or any ISO 8601 text with an offset."""
    bare = text.removesuffix(" UTC")
    found = datetime.fromisoformat(bare)
    if bare != text:
        return found.replace(tzinfo=UTC)
    if found.tzinfo is None:
        raise ValueError(f"{text!r}: say which zone, as in '2026-01-05 08:59 UTC'")
    return found
