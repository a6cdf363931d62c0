"""Two instants → a span of the past, both ends included; what makes no sense is refused by name."""

from dataclasses import dataclass
from datetime import UTC, datetime

from jobs.errors import DefinitionError

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Span:
    since: datetime
    until: datetime

    def checked(self, now: datetime) -> "Span":
        if self.since < EARLIEST:
            reason = f"expected an instant from {EARLIEST.isoformat()} on"
            raise DefinitionError("from", self.since.isoformat(), reason)
        if self.since > self.until:
            reason = f"expected an instant up to the end of the range, {self.until.isoformat()}"
            raise DefinitionError("from", self.since.isoformat(), reason)
        if self.since > now:
            reason = f"expected an instant in the past; it is {now.isoformat(timespec='seconds')}"
            raise DefinitionError("from", self.since.isoformat(), reason)
        return self
