"""The instants of `@every a-b`: random intervals that can be computed from any instant on.

An interval is drawn from the instant before it, so in a plain sequence an instant is known only after every
earlier one has been computed. Here the sequence passes through one fixed point per block of about
INTERVALS_PER_BLOCK intervals: any question starts at the fixed point before it. The last few intervals of a
block are drawn from a narrower range, so that the next fixed point is reached with intervals from a to b.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from punctual.schedules.kron.generator import draw_below
from punctual.schedules.utc import MILLISECOND, rfc3339, shift_instant

INTERVALS_PER_BLOCK = 512


@dataclass(frozen=True, slots=True)
class RandomIntervals:
    """Intervals in whole milliseconds, both ends included, counted from the anchor."""

    shortest: int
    longest: int
    anchor: datetime

    def fixed_point(self, instant: datetime) -> datetime:
        """The last fixed point at or before the instant; the anchor is the first one."""
        blocks = (instant - self.anchor) // MILLISECOND // self._block
        return self.anchor + blocks * self._block * MILLISECOND

    def following(self, previous: datetime, trigger_id: str) -> datetime | None:
        """The instant after one of the sequence; every node draws the same."""
        low, high = self._range(self._block - (previous - self.anchor) // MILLISECOND % self._block)
        extra = draw_below(high - low + 1, identity=trigger_id, key=rfc3339(previous), salt="every")
        return shift_instant(previous, (low + extra) * MILLISECOND)

    @property
    def _block(self) -> int:
        return (self.shortest + self.longest) * INTERVALS_PER_BLOCK // 2

    def _range(self, rest: int) -> tuple[int, int]:
        """The range of the next interval, given the time to the next fixed point.

        With `count` intervals to go, those after this one can last (count - 1) times the shortest to the
        longest. Away from the end of a block that restricts nothing.
        """
        pair = self.shortest + self.longest
        count = (4 * rest + pair) // (2 * pair)  # the rest in mean intervals, rounded
        count = min(max(count, -(-rest // self.longest)), rest // self.shortest)
        others = count - 1
        return (
            max(self.shortest, rest - others * self.longest),
            min(self.longest, rest - others * self.shortest),
        )
