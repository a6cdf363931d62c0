"""Compute the instants of a schedule that need a row. Pure.

Look-ahead: everything up to `now + lookahead`, and always one instant ahead of now, so that a job's next
occurrence is a row.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from punctual.schedules import Schedule

LOOKAHEAD = timedelta(seconds=60)
MAX_INSTANTS_PER_PLAN = 1000


class Plan(NamedTuple):
    """The instants to create, how far they reach, and when to plan again (None: never)."""

    instants: tuple[datetime, ...]
    planned_until: datetime
    plan_at: datetime | None


def plan(schedule: Schedule, *, start: datetime, now: datetime, lookahead: timedelta = LOOKAHEAD) -> Plan:
    """Plan the instants after `start`, at most MAX_INSTANTS_PER_PLAN of them."""
    instants: list[datetime] = []
    reached = start
    while len(instants) < MAX_INSTANTS_PER_PLAN:
        instant = schedule.next_after(reached)
        if instant is None:
            return Plan(tuple(instants), reached, plan_at=None)
        if instant > now + lookahead and reached > now:
            break
        instants.append(instant)
        reached = instant
    # A plan cut short by the maximum ends in the past, so `plan_at` is due at once and the rest follows.
    return Plan(tuple(instants), reached, plan_at=reached)
