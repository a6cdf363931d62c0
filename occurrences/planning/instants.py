"""Compute which instants of a schedule need a row, and when each of them starts. Pure.

Look-ahead: everything up to `now + lookahead`, and always one instant ahead of now, so that a job's next
occurrence is a row. The start time follows from the schedule's options and the job's spread.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from punctual.jobs.config.cascade import Config
from punctual.occurrences.states import Reason
from punctual.schedules import Expression, Schedule, krontab, unbounded
from punctual.schedules.kron import DecisionResult

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


class Choice(NamedTuple):
    """The start time; `refusal` says why the occurrence cannot start at all."""

    run_at: datetime
    expires_at: datetime | None = None
    refusal: Reason | None = None


def choose(schedule: Schedule, config: Config, identity: str, scheduled_for: datetime) -> Choice:
    """Apply spread, then stagger and jitter. They are drawn from `identity`, so every beat draws the same."""
    spread = decide_spread(schedule, config, identity, scheduled_for)
    if spread is not None and spread.chosen_time is None:
        return Choice(scheduled_for, refusal=Reason.UNSCHEDULABLE)
    start = scheduled_for if spread is None else spread.chosen_time or scheduled_for
    if not isinstance(schedule, Expression):
        return _before_deadline(schedule, start, scheduled_for)
    options = schedule.options
    delay, window = timedelta(), options.window
    if options.stagger or options.jitter:
        delay = schedule.stagger_for(identity) + schedule.jitter_for(identity, scheduled_for)
    elif window is None:
        return Choice(start)
    late = window is not None and start + delay > scheduled_for + window
    expires_at = None if window is None else scheduled_for + window
    return Choice(start + delay, expires_at, refusal=Reason.WINDOW if late else None)


def _before_deadline(schedule: Schedule, start: datetime, scheduled_for: datetime) -> Choice:
    """Apply the deadline of a krontab's policy, which is a window like that of Chronex."""
    schedule = unbounded(schedule)
    if not isinstance(schedule, krontab.Krontab) or not schedule.policy.deadline:
        return Choice(start)
    expires_at = scheduled_for + schedule.policy.deadline
    return Choice(start, expires_at, refusal=Reason.WINDOW if start > expires_at else None)


def reach_before(schedule: Schedule, config: Config) -> timedelta:
    """How long before its nominal instant an occurrence may start: half of an `around` window."""
    spread = _spread(schedule, config)
    if spread is None or spread.window_mode != "around":
        return timedelta()
    return timedelta(seconds=spread.window_duration.total_seconds() / 2 + 1)


def reach_after(schedule: Schedule, config: Config) -> timedelta:
    """How long after its nominal instant an occurrence may start at most."""
    spread = _spread(schedule, config)
    delay = timedelta() if spread is None else spread.window_duration
    if isinstance(schedule, Expression):
        delay += schedule.options.stagger + schedule.options.jitter
    return delay


def _spread(schedule: Schedule, config: Config) -> krontab.Spread | None:
    if config.spread:
        return krontab.parse_spread(config.spread)
    return None if isinstance(schedule, Expression) else getattr(unbounded(schedule), "spread", None)


def decide_spread(
    schedule: Schedule, config: Config, identity: str, nominal: datetime
) -> DecisionResult | None:
    """The spread's decision; None without a spread."""
    if config.spread:
        return krontab.parse_spread(config.spread).decide(identity, nominal, config.timezone)
    if isinstance(schedule, Expression):
        return None
    schedule = unbounded(schedule)
    return schedule.decide(identity, nominal) if isinstance(schedule, krontab.Krontab) else None
