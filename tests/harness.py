"""Drive the platform by hand, with an explicit clock: tick, work, crash, reap (the broker is real).

Messages are taken from the broker's queue one by one and handed to the steps a worker would call;
nothing of ours is replaced. A chord's callback never comes, so every story here also proves that
completion does not depend on it.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from queue import Empty
from typing import Any
from uuid import UUID

from celery import current_app
from kombu import Message

from beat import tick
from execution.claim import Claimed, claim
from execution.messages import RUN
from execution.work import settle_now, work
from jobs.ids import job_id
from jobs.sync import Synced, sync
from occurrences.models import Attempt, Occurrence, TaskRun

START = datetime(2026, 1, 5, 12, 0, 30, tzinfo=UTC)  # half a minute into a minute, on a Monday


@dataclass
class Harness:
    now: datetime = START
    received: list[tuple[str, list[Any]]] = field(default_factory=list)
    worked: list[UUID] = field(default_factory=list)

    # -- time ------------------------------------------------------------------------------------

    def pass_time(self, **span: float) -> datetime:
        self.now += timedelta(**span)
        return self.now

    def clock(self) -> datetime:
        return self.now

    # -- beat ------------------------------------------------------------------------------------

    def sync(self) -> Synced:
        return sync(self.now)

    def tick(self, *, sweeping: bool = True) -> tick.Ticked:
        return tick.run_once(self.now, sweeping=sweeping)

    def live(self, *, seconds: float, step: float = 1) -> None:
        """Let beat and workers go on together for a while."""
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self.pass_time(seconds=step)
            self.tick()
            self.work()

    # -- workers ---------------------------------------------------------------------------------

    def work(self) -> int:
        """Work off every message there is, and those that follow from them."""
        before = len(self.worked)
        while self.step():
            pass
        return len(self.worked) - before

    def step(self) -> bool:
        """Work off one message; False when there is none."""
        message = self.take()
        if message is None:
            return False
        name, argument = message
        if name == RUN:
            runs = [UUID(id_) for id_ in argument]
            self.worked += runs[: work(runs, worker="harness/1", clock=self.clock)]
        else:
            settle_now([UUID(argument)], clock=self.clock)
        return True

    def crash_worker(self) -> Claimed:
        """A worker takes a message, claims its runs, and is never heard of again."""
        message = self.take()
        assert message is not None, "no message to crash on"
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
        return [row.state for row in self.occurrences(job)]

    def finished(self, job: str) -> list[str]:
        return [row.state for row in self.occurrences(job) if row.finished_at]

    def runs(self, job: str) -> list[TaskRun]:
        rows = TaskRun.objects.filter(occurrence__job=job_id(job)).select_related("task")
        return list(rows.order_by("occurrence__scheduled_for", "position"))

    def attempts(self, job: str) -> list[Attempt]:
        rows = Attempt.objects.filter(run__occurrence__job=job_id(job))
        return list(rows.order_by("run__occurrence__scheduled_for", "run__position", "number"))


def states_of(rows: Iterable[TaskRun | Attempt | Occurrence]) -> list[str]:
    return [row.state for row in rows]
