"""The settings that a krontab states in its text, as `@policy(concurrency=,deadline=,suspend=)` (KRN-10).

`concurrency` is the setting `overlap`, `suspend` works like a pause, and `deadline` is the window of the
schedule, which planning reads from the schedule itself. Other kinds of schedules state nothing.
"""

from collections.abc import Mapping
from functools import lru_cache

from punctual.jobs.config.choices import Overlap
from punctual.schedules import ScheduleError, krontab, parse, unbounded

PREFIX = "kron:"
# A filter for the texts of suspended schedules: the same rule as `is_suspended`, for queries.
SUSPENDED = r"^[Kk][Rr][Oo][Nn]:.*@policy\([^)]*suspend=\"?true"
OVERLAPS = {"allow": Overlap.ALLOW, "forbid": Overlap.SKIP, "replace": Overlap.REPLACE}
NOTHING: Mapping[str, str] = {}


def policy_layer(schedule: str) -> Mapping[str, str]:
    """The overrides that the text of a schedule states."""
    if schedule[: len(PREFIX)].lower() != PREFIX:
        return NOTHING
    policy = _policy(schedule)
    return {"overlap": str(OVERLAPS[policy.concurrency])} if "concurrency" in policy.stated else NOTHING


def is_suspended(schedule: str) -> bool:
    """Whether the text of a schedule says that nothing starts."""
    return schedule[: len(PREFIX)].lower() == PREFIX and _policy(schedule).suspend


@lru_cache(maxsize=1024)
def _policy(text: str) -> krontab.Policy:
    try:
        schedule = unbounded(parse(text))
    except ScheduleError:
        return krontab.Policy()  # planning records what is wrong with it
    return schedule.policy if isinstance(schedule, krontab.Krontab) else krontab.Policy()
