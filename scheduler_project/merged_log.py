"""Lines of many programs → one readable stream, each line led by its program's name, or a JSON object."""

import json
from collections.abc import Sequence
from typing import Any, TextIO

COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
OWN_NAME = "up"


class MergedLog:
    def __init__(self, stream: TextIO, names: Sequence[str], *, as_json: bool = False) -> None:
        self.lost = False
        self._stream = stream
        self._json = as_json
        self._width = max(len(name) for name in (OWN_NAME, *names))
        self._colours = (
            {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
            if stream.isatty()
            else {}
        )

    def say(self, line: str) -> None:
        """A line of the supervisor itself."""
        self.write(OWN_NAME, [line])

    def write(self, name: str, lines: Sequence[str]) -> None:
        """Print and flush; a reader that went away is remembered, so that everything can stop."""
        if self.lost:
            return
        try:
            self._stream.writelines(f"{self._written(name, line)}\n" for line in lines if line)
            self._stream.flush()
        except OSError:  # the terminal was closed, or the pipe's other end has gone
            self.lost = True

    def _written(self, name: str, line: str) -> str:
        if self._json:
            return json.dumps({"program": name, **_fields(line)}, ensure_ascii=False)
        return f"{self._lead(name)}{line}"

    def _lead(self, name: str) -> str:
        lead = f"{name:<{self._width}} | "
        colour = self._colours.get(name)
        return f"\x1b[{colour}m{lead}\x1b[0m" if colour else lead


def _fields(line: str) -> dict[str, Any]:
    """What a program logged; what it printed instead becomes a message."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"message": line}
