"""The users' own harness (`jobs.testing`), on the real broker of the test run.

A chord's callback never comes here, so every story also proves that completion does not depend on it.
"""

from collections.abc import Iterable

from jobs.testing import START, Harness
from occurrences.models import Attempt, Occurrence, TaskRun

__all__ = ["START", "Harness", "states_of"]


def states_of(rows: Iterable[TaskRun | Attempt | Occurrence]) -> list[str]:
    return [row.state for row in rows]
