"""Read code blocks, inline code, tables, links and headings from the Markdown files of the project."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"docs/conformance.md", "docs/states.md"}  # written and checked by tests of their own
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Page:
    path: str
    text: str

    @property
    def blocks(self) -> list[Block]:
        return [
            Block(self.path, self.text.count("\n", 0, found.start()) + 2, found[1], found[2])
            for found in FENCE.finditer(self.text)
        ]

    def blocks_in(self, *languages: str) -> list[Block]:
        return [block for block in self.blocks if block.language in languages]

    @property
    def prose(self) -> str:
        return FENCE.sub("", self.text)

    @property
    def inline_code(self) -> list[str]:
        return INLINE.findall(self.prose)

    @property
    def links(self) -> list[str]:
        return [target for target in LINK.findall(self.prose) if "://" not in target]

    @property
    def anchors(self) -> set[str]:
        return {slug(title) for title in HEADING.findall(self.prose)}

    def table(self, heading: str) -> list[list[str]]:
        """Return the rows of the first table under a heading, as plain cells."""
        rest = self.prose.split(f" {heading}\n", 1)[1]
        section = re.split(r"^#{1,6} ", rest, maxsplit=1, flags=re.MULTILINE)[0]
        lines = [line for line in section.splitlines() if line.startswith("|")]
        return [cells(line) for line in lines[2:]]


def cells(line: str) -> list[str]:
    return [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]


def slug(title: str) -> str:
    """Return the anchor that GitHub makes for a heading."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def page(path: str) -> Page:
    return Page(path, (ROOT / path).read_text())


def pages() -> list[Page]:
    return list(_pages())


def _pages() -> Iterator[Page]:
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        name = path.relative_to(ROOT).as_posix()
        if name not in GENERATED:
            yield page(name)
