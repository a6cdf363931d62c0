"""Lines of a row's page → the lines that tell something; what is left of the pairs stands in pairs again."""

from collections.abc import Callable, Iterable
from typing import Any

Line = str | tuple[str, ...]


def telling(lines: Iterable[Any], tells: Callable[[str], bool]) -> list[Line]:
    """A name stands alone on its line, a tuple beside each other."""
    found: list[Line] = []
    beside: list[str] = []
    for line in lines:
        if not isinstance(line, str):
            beside += filter(tells, line)
            continue
        found += paired(beside)
        beside = []
        found += [line] if tells(line) else []
    return [*found, *paired(beside)]


def paired(names: Iterable[str]) -> list[Line]:
    left = list(names)
    return [tuple(left[at : at + 2]) for at in range(0, len(left), 2)]
