"""Decide which planned instants an edit forgets, keeps and creates (JOB-6). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from punctual.jobs.config.choices import Update
from punctual.jobs.store.update_policy import UpdatePolicy
from punctual.occurrences.planning.instants import plan
from punctual.schedules import Schedule


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


def decide_replan(
    schedule: Schedule | None, pending: Sequence[datetime], *, policy: UpdatePolicy, now: datetime
) -> Replan:
    """`pending` are the planned instants after now; without a schedule nothing is planned any more."""
    ahead = sorted(pending)
    if schedule is None:
        return Replan(tuple(ahead), (), (), now, plan_at=None)
    match policy.kind:
        case Update.GRACEFUL if ahead:
            return _plan_from(schedule, start=ahead[0], now=now, keep=ahead[:1], forget=ahead[1:])
        case Update.WINDOWED:
            return _plan_within(schedule, ahead, horizon=now + policy.horizon, now=now)
        case _:
            return _plan_from(schedule, start=now, now=now, keep=[], forget=ahead)


def decide_delay(pending: Sequence[datetime], *, policy: UpdatePolicy, now: datetime) -> Replan:
    """For a fixed delay: what is kept ends first, then planning continues from its end."""
    ahead = sorted(pending)
    match policy.kind:
        case Update.GRACEFUL:
            keep = ahead[:1]
        case Update.WINDOWED:
            keep = [instant for instant in ahead if instant > now + policy.horizon]
        case _:
            keep = []
    forget = tuple(instant for instant in ahead if instant not in keep)
    return Replan(forget, tuple(keep), (), planned_until=now, plan_at=now)


def _plan_from(
    schedule: Schedule, *, start: datetime, now: datetime, keep: list[datetime], forget: list[datetime]
) -> Replan:
    # The instant that is kept counts as the one ahead of now; planning goes on after it.
    ahead = plan(schedule, start=start, now=now)
    create = () if keep else ahead.instants
    until, plan_at = (start, start) if keep else (ahead.planned_until, ahead.plan_at)
    return Replan(tuple(forget), tuple(keep), create, until, plan_at)


def _plan_within(schedule: Schedule, pending: list[datetime], *, horizon: datetime, now: datetime) -> Replan:
    ahead = plan(schedule, start=now, now=now)
    create = tuple(instant for instant in ahead.instants if instant <= horizon)
    complete = len(create) == len(ahead.instants)
    return Replan(
        forget=tuple(instant for instant in pending if instant <= horizon),
        keep=tuple(instant for instant in pending if instant > horizon),
        create=create,
        planned_until=ahead.planned_until if complete else horizon,
        plan_at=ahead.plan_at if complete else horizon,
    )
