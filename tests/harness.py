"""The harness that users get (`punctual.testing`), with the real broker of the test run.

No chord callback is executed here, so every flow test also proves that completion does not depend on it.
"""

from collections.abc import Callable, Iterable
from typing import Any

from punctual.beat.tick import Ticked
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.testing import START, Harness

__all__ = ["START", "Harness", "at_the_hour", "hook_into", "states_of"]


def states_of(rows: Iterable[TaskRun | Attempt | Occurrence]) -> list[str]:
    return [row.state for row in rows]


def hook_into(seen: list[Any], name: str = "seen") -> Callable[[Any], None]:
    """A hook that keeps what it is called with; hooks are registered by their names."""

    def hook(argument: Any) -> None:
        seen.append(argument)

    hook.__qualname__ = f"hook_into.<locals>.{name}"
    return hook


def at_the_hour(harness: Harness) -> Ticked:
    """Sync and plan just before a full hour, then tick at it: hourly jobs have fired."""
    harness.start_at(harness.now.replace(minute=59, second=59))
    harness.tick()
    harness.pass_time(seconds=1)
    return harness.tick()
