"""What a door shows before it does something, and what it says afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from jobs.display import Section

Facts = list[tuple[str, object]]


@dataclass(frozen=True)
class Shown:
    """What would be done. `said` stands for a count that is only known to be at least that."""

    count: int
    facts: Facts
    said: str = ""
    tables: Sequence[Section] = ()
    hint: str = ""
    what: tuple[str, str] = ("occurrence", "occurrences")


@dataclass(frozen=True)
class Done:
    """`trouble`: what could not be done, and why."""

    count: int
    message: SafeString | str
    trouble: str = ""


def at_least(count: int, *, more: bool) -> str:
    return f"at least {count:,}" if more else f"{count:,}"
