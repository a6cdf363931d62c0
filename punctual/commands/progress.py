"""Show a progress bar on a terminal; pipes, files and CI logs see nothing of it."""

from dataclasses import dataclass
from typing import TextIO

WIDTH = 30  # characters


@dataclass
class Progress:
    """Call it with the number of rows that were handled since the last call."""

    stream: TextIO
    total: int
    label: str
    done: int = 0

    def __call__(self, count: int) -> None:
        complete = self.done >= self.total  # more rows than expected may follow
        self.done += count
        if not complete and self.stream.isatty():
            self.stream.write(f"\r{bar(self.done, self.total, self.label)}{self._ending}")
            self.stream.flush()

    def end(self) -> None:
        """End the line also if fewer rows than expected were handled: a beat may have done a part."""
        if 0 < self.done < self.total and self.stream.isatty():
            self.stream.write("\n")

    @property
    def _ending(self) -> str:
        return "\n" if self.done >= self.total else ""


def bar(done: int, total: int, label: str) -> str:
    filled = WIDTH * min(done, total) // total
    return f"{label} [{'#' * filled}{'.' * (WIDTH - filled)}] {done:,}/{total:,}"
