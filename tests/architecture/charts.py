"""Draw the tables of occurrences/states.py as Mermaid state diagrams, and read arrows back from them.

`python -m tests.architecture.charts` rewrites the charts in docs/states.md.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from punctual.occurrences import states

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "states.md"
CHART = re.compile(r"<!-- chart: (\w+) -->\n```mermaid\nstateDiagram-v2\n(.*?)```\n", re.DOTALL)
ARROW = re.compile(r"^\s*(\S+) --> (\S+)\s*$", re.MULTILINE)

Arrows = set[tuple[str, str]]
State = TypeVar("State", bound=str)


def arrows(first: State, moves: Mapping[State, Collection[State]], final: Collection[State]) -> Arrows:
    """Yield every transition, the entry and the exits; `[*]` is Mermaid's start and end."""
    between = {(str(source), str(target)) for source, row in moves.items() for target in row}
    return between | {("[*]", str(first))} | {(str(state), "[*]") for state in final}


def tables() -> dict[str, Arrows]:
    return {
        "occurrence": arrows(
            states.OccurrenceState.PENDING, states.OCCURRENCE_MOVES, states.OCCURRENCE_FINAL
        ),
        "run": arrows(states.RunState.SCHEDULED, states.RUN_MOVES, states.RUN_FINAL),
    }


def drawn(text: str) -> dict[str, Arrows]:
    return {name: set(ARROW.findall(body)) for name, body in CHART.findall(text)}


def rewritten(text: str) -> str:
    known = tables()

    def chart(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- chart: {name} -->\n```mermaid\nstateDiagram-v2\n{body(known[name])}```\n"

    return CHART.sub(chart, text)


def body(arrows: Arrows) -> str:
    return "".join(f"    {source} --> {target}\n" for source, target in ordered(arrows))


def ordered(arrows: Arrows) -> Iterator[tuple[str, str]]:
    """Order states by their distance from the start."""
    frontier, seen = ["[*]"], {"[*]"}
    while frontier:
        source = frontier.pop(0)
        for target in sorted(target for start, target in arrows if start == source):
            if source == "[*]" or target != "[*]":
                yield source, target
            if target not in seen:
                seen.add(target)
                frontier.append(target)
    yield from sorted((source, target) for source, target in arrows if target == "[*]")


if __name__ == "__main__":
    DOCUMENT.write_text(rewritten(DOCUMENT.read_text()))
