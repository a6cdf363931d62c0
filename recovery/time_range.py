"""A validated range of past instants, both ends included."""

from dataclasses import dataclass
from datetime import UTC, datetime

from punctual.jobs.errors import DefinitionError

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class TimeRange:
    since: datetime
    until: datetime

    def check(self, now: datetime) -> None:
        if self.since < EARLIEST:
            reason = f"expected an instant from {EARLIEST.isoformat()} on"
            raise DefinitionError("from", self.since.isoformat(), reason)
        if self.since > self.until:
            reason = f"expected an instant up to the end of the range, {self.until.isoformat()}"
            raise DefinitionError("from", self.since.isoformat(), reason)
        if self.since > now:
            reason = f"expected an instant in the past; it is {now.isoformat(timespec='seconds')}"
            raise DefinitionError("from", self.since.isoformat(), reason)
