"""Read the definitions in a document, or all that is wrong with it: place, field, value and what is allowed.

There are two shapes: a fleet, `{"jobs": [definition, …]}`, and trigger definitions, `{"id", "expression",
…}` alone or in a list. A trigger definition names no function; the caller names one for all of them
(CHX-16).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from punctual.jobs.declaration.registry import registry
from punctual.jobs.definition.document import Definition
from punctual.jobs.definition.validation import validate
from punctual.jobs.errors import DefinitionError
from punctual.jobs.models import Origin
from punctual.schedules import ScheduleError
from punctual.schedules.chronex import TriggerDefinition

MAX_LINE_LENGTH = 300
SHAPES = 'expected {"jobs": [...]}, or trigger definitions with an id and an expression'


@dataclass(frozen=True)
class Entry:
    """One job of a file: its place there, its definition, and the origin it is marked with, if any."""

    place: str
    definition: Definition
    origin: str = ""

    def mistake(self, reason: str) -> str:
        return format_mistake(self.place, f"name={self.definition.name!r}: {reason}")


@dataclass(frozen=True)
class Entries:
    entries: tuple[Entry, ...] = ()
    mistakes: tuple[str, ...] = ()


def read_entries(document: object, *, function: str | None = None) -> Entries:
    """Read a document; `function` is the registered function that trigger definitions call."""
    if isinstance(document, Mapping) and "jobs" in document:
        return _read_fleet(document, function)
    if isinstance(document, Mapping) and "expression" in document:
        return _read_triggers([document], function)
    if isinstance(document, list) and document:
        return _read_triggers(document, function)
    return Entries(mistakes=(format_mistake("file", SHAPES),))


def format_mistake(place: str, text: object) -> str:
    """Write a mistake on one line, cut to a length that a terminal can show."""
    line = " ".join(str(text).split())
    return f"{place}: {line if len(line) <= MAX_LINE_LENGTH else line[: MAX_LINE_LENGTH - 1] + '…'}"


def _read_fleet(document: Mapping[str, Any], function: str | None) -> Entries:
    mistakes = [format_mistake(str(key), "unknown field; expected jobs") for key in document if key != "jobs"]
    if function is not None:
        mistakes.append(f"--function={function!r}: only for trigger definitions; this file names functions")
    items = document["jobs"]
    if not isinstance(items, list):
        return Entries(mistakes=(*mistakes, format_mistake("jobs", f"{items!r}: expected a list")))
    return _collect((_read_job(f"jobs[{n}]", item) for n, item in enumerate(items)), mistakes)


def _read_triggers(items: list[Any], function: str | None) -> Entries:
    if function is None or registry.function(function) is None:
        names = ", ".join(sorted(registry.functions)) or "none"
        reason = f"trigger definitions need a registered function to call; registered are: {names}"
        return Entries(mistakes=(f"--function={function!r}: {reason}",))
    return _collect((_read_trigger(f"[{n}]", item, function) for n, item in enumerate(items)), [])


def _collect(results: Iterable[Entry | list[str]], mistakes: list[str]) -> Entries:
    entries: list[Entry] = []
    for result in results:
        if isinstance(result, Entry):
            entries.append(result)
        else:
            mistakes.extend(result)
    return Entries(tuple(entries), (*mistakes, *_duplicates(entries)))


def _read_job(place: str, item: object) -> Entry | list[str]:
    origin, data = "", item
    if isinstance(item, Mapping) and "origin" in item:
        origin, data = item["origin"], {key: item[key] for key in item if key != "origin"}
    mistakes, result = list(_check_origin(origin)), validate(data)
    if isinstance(result, Definition) and not mistakes:
        return Entry(place, result, origin)
    mistakes += [] if isinstance(result, Definition) else result
    return list(dict.fromkeys(format_mistake(place, mistake) for mistake in mistakes))


def _check_origin(origin: object) -> Iterator[DefinitionError]:
    if origin != "" and origin not in Origin.values:
        yield DefinitionError("origin", origin, f"expected one of {', '.join(Origin.values)}")


def _read_trigger(place: str, item: object, function: str) -> Entry | list[str]:
    try:
        trigger = TriggerDefinition.from_dict(item)
        task = {"name": function.rpartition(".")[2], "function": function}
        data: dict[str, Any] = {"name": trigger.id, "schedule": trigger.expression, "tasks": [task]}
        data |= {"metadata": dict(trigger.metadata), "enabled": trigger.enabled}
        return Entry(place, Definition.load(data))
    except (ScheduleError, DefinitionError) as error:
        return [format_mistake(place, error)]


def _duplicates(entries: list[Entry]) -> Iterator[str]:
    counts = Counter(entry.definition.name for entry in entries)
    for entry in entries:
        if counts[entry.definition.name] > 1:
            yield entry.mistake(f"given {counts[entry.definition.name]} times; job names are unique")
