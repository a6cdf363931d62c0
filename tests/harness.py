"""The users' own harness (`jobs.testing`), on the real broker of the test run.

A chord's callback never comes here, so every story also proves that completion does not depend on it.
"""

from collections.abc import Iterable

from beat.tick import Ticked
from jobs.testing import START, Harness
from occurrences.models import Attempt, Occurrence, TaskRun

__all__ = ["START", "Harness", "at_the_hour", "states_of"]


def states_of(rows: Iterable[TaskRun | Attempt | Occurrence]) -> list[str]:
    return [row.state for row in rows]


def at_the_hour(harness: Harness) -> Ticked:
    """Sync just before a full hour, plan, and tick at it: what is scheduled hourly has fired."""
    harness.start_at(harness.now.replace(minute=59, second=59))
    harness.tick()
    harness.pass_time(seconds=1)
    return harness.tick()
