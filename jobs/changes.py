"""Two definitions as JSON → what differs between them, field by field. Pure.

Settings, metadata and tasks are compared one by one: "the retry policy of `load`" is an answer,
"the configuration" is none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Json = Any
KINDS = ("schedule", "enabled", "config", "metadata", "order of tasks", "task")


@dataclass(frozen=True)
class Changed:
    """One field; None stands for "not set"."""

    field: str
    before: Json
    after: Json


def changes(before: Json, after: Json) -> list[Changed]:
    """`before` is None for something new; what is no object has no fields."""
    old, new = dict(_fields(before)), dict(_fields(after))
    differing = [field for field in dict.fromkeys([*old, *new]) if old.get(field) != new.get(field)]
    return [Changed(field, old.get(field), new.get(field)) for field in sorted(differing, key=_rank)]


def _rank(field: str) -> int:
    """Fields of a kind stand together; within a kind they keep their order."""
    return next(place for place, kind in enumerate(KINDS) if field.startswith(kind))


def _fields(definition: Json) -> Iterator[tuple[str, Json]]:
    given = _mapping(definition)
    for plain in ("schedule", "enabled"):
        yield plain, given.get(plain)
    for group in ("config", "metadata"):
        yield from _each(group, given.get(group))
    tasks = [_mapping(task) for task in _list(given.get("tasks"))]
    yield "order of tasks", [task.get("name") for task in tasks] or None
    for task in tasks:
        yield f"task {task.get('name')}: function", task.get("function")
        yield from _each(f"task {task.get('name')}: config", task.get("config"))


def _each(group: str, values: Json) -> Iterator[tuple[str, Json]]:
    for key, value in sorted(_mapping(values).items()):
        yield f"{group}.{key}", value


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
