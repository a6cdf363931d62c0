"""Merge the lines of all programs into one stream, each with its program's name, or as JSON objects."""

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
        """Write a line of the supervisor itself."""
        self.write(OWN_NAME, [line])

    def write(self, name: str, lines: Sequence[str]) -> None:
        """Write and flush. A closed reader sets `lost`, and the supervisor stops everything."""
        if self.lost:
            return
        try:
            self._stream.writelines(f"{self._format(name, line)}\n" for line in lines if line)
            self._stream.flush()
        except OSError:  # the terminal or the other end of the pipe was closed
            self.lost = True

    def _format(self, name: str, line: str) -> str:
        if self._json:
            return json.dumps({"program": name, **_fields(line)}, ensure_ascii=False)
        return f"{self._prefix(name)}{line}"

    def _prefix(self, name: str) -> str:
        prefix = f"{name:<{self._width}} | "
        colour = self._colours.get(name)
        return f"\x1b[{colour}m{prefix}\x1b[0m" if colour else prefix


def _fields(line: str) -> dict[str, Any]:
    """Return the fields of a JSON line; any other line becomes a message."""
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    return fields if isinstance(fields, dict) else {"message": line}
