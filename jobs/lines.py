"""Lines of a row's page → the lines that tell something."""

from collections.abc import Callable, Iterable
from typing import Any

Line = str | tuple[str, ...]


def telling(lines: Iterable[Any], tells: Callable[[str], bool]) -> list[Line]:
    """A name stands alone on its line, the names of a tuple beside each other."""
    beside = (tuple(filter(tells, (line,) if isinstance(line, str) else line)) for line in lines)
    return [line if len(line) > 1 else line[0] for line in beside if line]
