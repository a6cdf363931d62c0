"""A worker's name and now → its row in the table of workers: proof that it is on duty, busy or not.

Written by its supervisor, one statement every few seconds. A worker that is stopped takes its row away; one
that dies leaves it behind, and it grows old.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from execution.models import Worker

Clock = Callable[[], datetime]
RENEWED_EVERY = 5.0  # seconds
SILENT_AFTER = timedelta(seconds=4 * RENEWED_EVERY)
FORGOTTEN_AFTER = timedelta(hours=1)


@dataclass
class Presence:
    name: str
    renewed: float | None = None

    def run_once(self, *, at: float, clock: Clock) -> bool:
        """Whether it was time to write."""
        if self.renewed is None:
            sign_in(self.name, clock())
        elif at - self.renewed >= RENEWED_EVERY:
            renew(self.name, clock())
        else:
            return False
        self.renewed = at
        return True


def sign_in(name: str, now: datetime) -> None:
    Worker.objects.filter(seen_at__lt=now - FORGOTTEN_AFTER).delete()
    Worker.objects.update_or_create(name=name, defaults={"started_at": now, "seen_at": now})


def renew(name: str, now: datetime) -> None:
    if not Worker.objects.filter(name=name).update(seen_at=now):
        sign_in(name, now)  # removed as forgotten, or by another of the same name


def sign_out(name: str) -> None:
    Worker.objects.filter(name=name).delete()
