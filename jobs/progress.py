"""Steps done so far → a bar on the terminal; silent wherever nobody watches."""

from dataclasses import dataclass
from typing import TextIO

WIDTH = 30


@dataclass
class Progress:
    """Call it with how many more are done. Pipes, files and CI logs see nothing of it."""

    stream: TextIO
    total: int
    label: str
    done: int = 0

    def __call__(self, count: int) -> None:
        drawn = self.done >= self.total  # to its end: it may turn out to be more than was expected
        self.done += count
        if not drawn and self.stream.isatty():
            self.stream.write(f"\r{bar(self.done, self.total, self.label)}{self._ending}")
            self.stream.flush()

    def end(self) -> None:
        """Ends the line also when it was less than expected: others did a part of it."""
        if 0 < self.done < self.total and self.stream.isatty():
            self.stream.write("\n")

    @property
    def _ending(self) -> str:
        return "\n" if self.done >= self.total else ""


def bar(done: int, total: int, label: str) -> str:
    filled = WIDTH * min(done, total) // total
    return f"{label} [{'#' * filled}{'.' * (WIDTH - filled)}] {done:,}/{total:,}"
