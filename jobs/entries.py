"""A document → the definitions in it, or everything that is wrong with it: place, field, value, allowed.

Two shapes: a fleet, `{"jobs": [definition, …]}`, and trigger definitions, `{"id", "expression", …}`
alone or in a list, which say when but not what; `function` says what (CHX-16).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.definition import Definition
from jobs.errors import DefinitionError
from jobs.mistakes import checked
from jobs.models import Origin
from jobs.registry import registry
from schedules import ScheduleError
from schedules.chronex import TriggerDefinition

SHOWN = 300
SHAPES = 'expected {"jobs": [...]}, or trigger definitions with an id and an expression'


@dataclass(frozen=True)
class Entry:
    """`where` is its place in the file; `origin` is set where somebody else owns the job."""

    where: str
    definition: Definition
    origin: str = ""

    def refused(self, reason: str) -> str:
        return line(self.where, f"name={self.definition.name!r}: {reason}")


@dataclass(frozen=True)
class Entries:
    found: tuple[Entry, ...] = ()
    mistakes: tuple[str, ...] = ()


def entries(document: object, *, function: str | None = None) -> Entries:
    """`function` is the registered function that trigger definitions shall call."""
    if isinstance(document, Mapping) and "jobs" in document:
        return _fleet(document, function)
    if isinstance(document, Mapping) and "expression" in document:
        return _triggers([document], function)
    if isinstance(document, list) and document:
        return _triggers(document, function)
    return Entries(mistakes=(line("file", SHAPES),))


def line(where: str, text: object) -> str:
    """One mistake on one line, however large the value is."""
    words = " ".join(str(text).split())
    return f"{where}: {words if len(words) <= SHOWN else words[: SHOWN - 1] + '…'}"


def _fleet(document: Mapping[str, Any], function: str | None) -> Entries:
    problems = [line(str(key), "unknown field; expected jobs") for key in document if key != "jobs"]
    if function is not None:
        problems.append(f"--function={function!r}: only for trigger definitions; this file names functions")
    items = document["jobs"]
    if not isinstance(items, list):
        return Entries(mistakes=(*problems, line("jobs", f"{items!r}: expected a list")))
    return _collected((_entry(f"jobs[{n}]", item) for n, item in enumerate(items)), problems)


def _triggers(items: list[Any], function: str | None) -> Entries:
    if function is None or registry.function(function) is None:
        known = ", ".join(sorted(registry.functions)) or "none"
        reason = f"trigger definitions need a registered function to call; registered are: {known}"
        return Entries(mistakes=(f"--function={function!r}: {reason}",))
    return _collected((_trigger(f"[{n}]", item, function) for n, item in enumerate(items)), [])


def _collected(read: Iterable[Entry | list[str]], problems: list[str]) -> Entries:
    found: list[Entry] = []
    for item in read:
        if isinstance(item, Entry):
            found.append(item)
        else:
            problems.extend(item)
    return Entries(tuple(found), (*problems, *_duplicates(found)))


def _entry(where: str, item: object) -> Entry | list[str]:
    origin, data = "", item
    if isinstance(item, Mapping) and "origin" in item:
        origin, data = item["origin"], {key: item[key] for key in item if key != "origin"}
    problems, found = list(_unknown_origin(origin)), checked(data)
    if isinstance(found, Definition) and not problems:
        return Entry(where, found, origin)
    problems += [] if isinstance(found, Definition) else found
    return list(dict.fromkeys(line(where, problem) for problem in problems))


def _unknown_origin(origin: object) -> Iterator[DefinitionError]:
    if origin != "" and origin not in Origin.values:
        yield DefinitionError("origin", origin, f"expected one of {', '.join(Origin.values)}")


def _trigger(where: str, item: object, function: str) -> Entry | list[str]:
    try:
        trigger = TriggerDefinition.from_dict(item)
        task = {"name": function.rpartition(".")[2], "function": function}
        data: dict[str, Any] = {"name": trigger.id, "schedule": trigger.expression, "tasks": [task]}
        data |= {"metadata": dict(trigger.metadata), "enabled": trigger.enabled}
        return Entry(where, Definition.load(data))
    except (ScheduleError, DefinitionError) as error:
        return [line(where, error)]


def _duplicates(found: list[Entry]) -> Iterator[str]:
    counts = Counter(entry.definition.name for entry in found)
    for entry in found:
        if counts[entry.definition.name] > 1:
            yield entry.refused(f"given {counts[entry.definition.name]} times; a name stands for one job")
