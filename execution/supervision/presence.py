"""Write the row of this beat or worker in the table of processes, as proof that it is alive, busy or idle.

A worker's supervisor renews the row every few seconds, with the queues that the worker consumes; a beat
renews it after each tick. A process that stops deletes its row. The row of a process that died gets old:
pages show the process as silent, and the next process that signs in deletes rows older than
`FORGOTTEN_AFTER`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from celery import current_app

from punctual.execution.models import Process

Clock = Callable[[], datetime]
RENEWAL_INTERVAL = 5.0  # seconds; of a worker
SILENT_AFTER = timedelta(seconds=4 * RENEWAL_INTERVAL)
FORGOTTEN_AFTER = timedelta(hours=1)


def consumed_queues() -> list[str]:
    """Names of the queues this worker consumes now; remote control may have added or canceled some."""
    return sorted(current_app.amqp.queues.consume_from)


@dataclass
class WorkerPresence:
    """Signs a worker in at the first pass of its supervisor, and renews the row from then on."""

    name: str
    queues: Callable[[], list[str]] = consumed_queues
    renewed: float | None = None

    def run_once(self, *, at: float, clock: Clock) -> bool:
        """Whether the row was written."""
        if self.renewed is None:
            sign_in(self.name, Process.Kind.WORKER, now=clock(), queues=self.queues())
        elif at - self.renewed >= RENEWAL_INTERVAL:
            renew(self.name, Process.Kind.WORKER, now=clock(), queues=self.queues())
        else:
            return False
        self.renewed = at
        return True


def sign_in(name: str, kind: Process.Kind, *, now: datetime, queues: Sequence[str] = ()) -> None:
    Process.objects.filter(seen_at__lt=now - FORGOTTEN_AFTER).delete()
    facts = {
        "kind": kind,
        "started_at": now,
        "seen_at": now,
        "tick_duration": timedelta(),
        "queues": list(queues),
    }
    Process.objects.update_or_create(name=name, defaults=facts)


def renew(
    name: str,
    kind: Process.Kind,
    *,
    now: datetime,
    tick_duration: timedelta = timedelta(),
    queues: Sequence[str] = (),
) -> None:
    row = Process.objects.filter(name=name)
    if not row.update(seen_at=now, tick_duration=tick_duration, queues=list(queues)):
        # Deleted as forgotten while this process was frozen, or by another process of the same name.
        sign_in(name, kind, now=now, queues=queues)


def live_consumers(now: datetime) -> Counter[str]:
    """Count the workers that consume each queue and have renewed their presence lately."""
    live = Process.objects.workers().seen_since(now - SILENT_AFTER)
    return Counter(queue for queues in live.values_list("queues", flat=True) for queue in queues)


def sign_out(name: str) -> None:
    Process.objects.filter(name=name).delete()
