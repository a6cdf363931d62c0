"""A schedule, how far it is planned, and now → the instants that need a row. Pure.

Look-ahead: everything up to `now + lookahead`, and in any case one instant ahead of now, so that a
job's next occurrence is always a row.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from schedules import Schedule

LOOKAHEAD = timedelta(seconds=60)
MOST_PER_JOB = 1000


class Plan(NamedTuple):
    """Instants to create, how far they reach, and when to plan again (None: never)."""

    instants: tuple[datetime, ...]
    planned_until: datetime
    plan_at: datetime | None


def plan(schedule: Schedule, *, start: datetime, now: datetime, lookahead: timedelta = LOOKAHEAD) -> Plan:
    instants: list[datetime] = []
    reached = start
    while len(instants) < MOST_PER_JOB:
        instant = schedule.next_after(reached)
        if instant is None:
            return Plan(tuple(instants), reached, plan_at=None)
        if instant > now + lookahead and reached > now:
            break
        instants.append(instant)
        reached = instant
    # A plan cut short by MOST_PER_JOB ends in the past, so `plan_at` is due at once: the rest follows.
    return Plan(tuple(instants), reached, plan_at=reached)
