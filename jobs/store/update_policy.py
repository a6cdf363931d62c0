"""What happens to occurrences that are already planned when a job changes (JOB-6)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from punctual.jobs.config.choices import Update
from punctual.jobs.errors import DefinitionError


@dataclass(frozen=True)
class UpdatePolicy:
    kind: Update = Update.IMMEDIATE
    horizon: timedelta = timedelta(days=7)

    @classmethod
    def named(cls, name: str) -> "UpdatePolicy":
        """Return the policy of this name; DefinitionError lists the names."""
        try:
            return cls(Update(name))
        except ValueError:
            raise DefinitionError("policy", name, f"expected one of {', '.join(Update)}") from None


@dataclass(frozen=True)
class PendingDiff:
    """The planned instants that an update adds, removes and keeps."""

    job: str
    added: tuple[datetime, ...] = ()
    removed: tuple[datetime, ...] = ()
    kept: tuple[datetime, ...] = ()


IMMEDIATE = UpdatePolicy()
