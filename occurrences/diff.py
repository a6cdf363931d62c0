"""A new schedule, what is planned, and a policy → what to forget, keep and create (JOB-6). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs.policy import Update, UpdatePolicy
from occurrences.planning import plan
from schedules import Schedule


@dataclass(frozen=True)
class Replan:
    """`forget` and `create` may share instants: those stay, with the new configuration."""

    forget: tuple[datetime, ...]
    keep: tuple[datetime, ...]
    create: tuple[datetime, ...]
    planned_until: datetime
    plan_at: datetime | None

    @property
    def added(self) -> tuple[datetime, ...]:
        return tuple(sorted(set(self.create) - {*self.forget, *self.keep}))

    @property
    def removed(self) -> tuple[datetime, ...]:
        return tuple(sorted(set(self.forget) - set(self.create)))

    @property
    def kept(self) -> tuple[datetime, ...]:
        return tuple(sorted({*self.keep, *(set(self.forget) & set(self.create))}))


def replan(
    schedule: Schedule | None, pending: Sequence[datetime], *, policy: UpdatePolicy, now: datetime
) -> Replan:
    """`pending` are the planned instants ahead of now; no schedule means that nothing shall be planned."""
    ahead = sorted(pending)
    if schedule is None:
        return Replan(tuple(ahead), (), (), now, plan_at=None)
    match policy.kind:
        case Update.GRACEFUL if ahead:
            return _from(schedule, start=ahead[0], now=now, keep=ahead[:1], forget=ahead[1:])
        case Update.WINDOWED:
            return _within(schedule, ahead, horizon=now + policy.horizon, now=now)
        case _:
            return _from(schedule, start=now, now=now, keep=[], forget=ahead)


def _from(
    schedule: Schedule, *, start: datetime, now: datetime, keep: list[datetime], forget: list[datetime]
) -> Replan:
    # Planned as of its start: the instant kept counts as the one ahead of now.
    found = plan(schedule, start=start, now=now)
    fresh = () if keep else found.instants
    until, at = (start, start) if keep else (found.planned_until, found.plan_at)
    return Replan(tuple(forget), tuple(keep), fresh, until, at)


def _within(schedule: Schedule, ahead: list[datetime], *, horizon: datetime, now: datetime) -> Replan:
    found = plan(schedule, start=now, now=now)
    fresh = tuple(instant for instant in found.instants if instant <= horizon)
    whole = len(fresh) == len(found.instants)
    return Replan(
        forget=tuple(instant for instant in ahead if instant <= horizon),
        keep=tuple(instant for instant in ahead if instant > horizon),
        create=fresh,
        planned_until=found.planned_until if whole else horizon,
        plan_at=found.plan_at if whole else horizon,
    )
