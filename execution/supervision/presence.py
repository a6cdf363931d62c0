"""Write the row of this beat or worker in the table of processes, as proof that it is alive, busy or idle.

A worker's supervisor renews the row every few seconds, a beat renews it after each tick. A process that stops
deletes its row. The row of a process that died gets old: pages show the process as silent, and the next
process that signs in deletes rows older than `FORGOTTEN_AFTER`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from punctual.execution.models import Process

Clock = Callable[[], datetime]
RENEWAL_INTERVAL = 5.0  # seconds; of a worker
SILENT_AFTER = timedelta(seconds=4 * RENEWAL_INTERVAL)
FORGOTTEN_AFTER = timedelta(hours=1)


@dataclass
class WorkerPresence:
    """Signs a worker in at the first pass of its supervisor, and renews the row from then on."""

    name: str
    renewed: float | None = None

    def run_once(self, *, at: float, clock: Clock) -> bool:
        """Whether the row was written."""
        if self.renewed is None:
            sign_in(self.name, Process.Kind.WORKER, now=clock())
        elif at - self.renewed >= RENEWAL_INTERVAL:
            renew(self.name, Process.Kind.WORKER, now=clock())
        else:
            return False
        self.renewed = at
        return True


def sign_in(name: str, kind: Process.Kind, *, now: datetime) -> None:
    Process.objects.filter(seen_at__lt=now - FORGOTTEN_AFTER).delete()
    facts = {"kind": kind, "started_at": now, "seen_at": now, "tick_duration": timedelta()}
    Process.objects.update_or_create(name=name, defaults=facts)


def renew(name: str, kind: Process.Kind, *, now: datetime, tick_duration: timedelta = timedelta()) -> None:
    row = Process.objects.filter(name=name)
    if not row.update(seen_at=now, tick_duration=tick_duration):
        # Deleted as forgotten while this process was frozen, or by another process of the same name.
        sign_in(name, kind, now=now)


def sign_out(name: str) -> None:
    Process.objects.filter(name=name).delete()
