"""What becomes of occurrences already planned when a job changes (JOB-6), as a small frozen value."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from jobs.errors import DefinitionError


class Update(StrEnum):
    IMMEDIATE = "immediate"  # everything ahead follows the new definition
    GRACEFUL = "graceful"  # the earliest pending one still runs the old way
    WINDOWED = "windowed"  # only what lies within the horizon follows the new definition


@dataclass(frozen=True)
class UpdatePolicy:
    kind: Update = Update.IMMEDIATE
    horizon: timedelta = timedelta(days=7)

    @classmethod
    def named(cls, name: str) -> "UpdatePolicy":
        try:
            return cls(Update(name))
        except ValueError:
            raise DefinitionError("policy", name, f"expected one of {', '.join(Update)}") from None


@dataclass(frozen=True)
class PendingDiff:
    """Planned instants an update adds, removes and keeps."""

    job: str
    added: tuple[datetime, ...] = ()
    removed: tuple[datetime, ...] = ()
    kept: tuple[datetime, ...] = ()


IMMEDIATE = UpdatePolicy()
