"""Write the tables of docs/events.md from the catalogue of events, and find the events that the code emits.

`python -m tests.architecture.catalogue` rewrites the tables.
"""

import ast
import logging
import re
from collections.abc import Iterator, Sequence

from punctual.jobs.events import Event
from punctual.polling.scheduler_events import WARNING_EVENTS, SchedulerEvent
from tests.architecture.source import ROOT, Module, called_name, calls, modules

DOCUMENT = ROOT / "docs" / "events.md"
TABLE = re.compile(r"<!-- events: (\w+) -->\n(.*?)(?=\n\n|\n?\Z)", re.DOTALL)


def tables() -> dict[str, str]:
    platform = [(f"`{event}`", level(event.level), event.meaning) for event in Event]
    polling = [
        (f"`{one}`", level(logging.WARNING if one in WARNING_EVENTS else logging.INFO))
        for one in SchedulerEvent
    ]
    return {
        "platform": table(("event", "level", "meaning"), platform),
        "polling": table(("event", "level"), polling),
    }


def level(number: int) -> str:
    return logging.getLevelName(number).lower()


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def rewritten(text: str) -> str:
    known = tables()
    return TABLE.sub(lambda found: f"<!-- events: {found[1]} -->\n{known[found[1]]}", text)


def emitted() -> Iterator[tuple[Module, ast.Call]]:
    """Find every call of `emit`, by any name it is imported as."""
    for module in modules():
        yield from (
            (module, call)
            for call in calls(module)
            if called_name(call) in ("emit", "emit_error", "emit_failure")
        )


def named(kind: str) -> set[str]:
    """Return the members of a catalogue that a module other than the catalogue names."""
    mention = re.compile(rf"\b(?:{kind})\.([A-Z_]+)\b")
    texts = [one.text for one in modules() if not one.path.endswith("/events.py")]
    return {name for text in texts for name in mention.findall(text)}


if __name__ == "__main__":
    DOCUMENT.write_text(rewritten(DOCUMENT.read_text()))
