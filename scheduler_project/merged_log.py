"""Lines of many programs → one readable stream, each line led by its program's name."""

from collections.abc import Sequence
from typing import TextIO

COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
OWN_NAME = "up"


class MergedLog:
    def __init__(self, stream: TextIO, names: Sequence[str]) -> None:
        self.lost = False
        self._stream = stream
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
        lead = self._lead(name)
        try:
            self._stream.writelines(f"{lead}{line}\n" for line in lines if line)
            self._stream.flush()
        except OSError:  # the terminal was closed, or the pipe's other end has gone
            self.lost = True

    def _lead(self, name: str) -> str:
        lead = f"{name:<{self._width}} | "
        colour = self._colours.get(name)
        return f"\x1b[{colour}m{lead}\x1b[0m" if colour else lead
