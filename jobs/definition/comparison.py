"""Compare two definitions as JSON, field by field. Pure.

Settings, metadata and tasks are compared one by one: the answer is "the retry policy of `load`", not "the
configuration".
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Json = Any
FIELD_ORDER = ("schedule", "enabled", "config", "metadata", "order of tasks", "task")


@dataclass(frozen=True)
class FieldChange:
    """A field that differs; None means "not set"."""

    field: str
    before: Json
    after: Json


def field_changes(before: Json, after: Json) -> list[FieldChange]:
    """List the fields that differ; `before` is None for a new job. Only a JSON object has fields."""
    old, new = dict(_fields(before)), dict(_fields(after))
    differing = [field for field in dict.fromkeys([*old, *new]) if old.get(field) != new.get(field)]
    return [FieldChange(field, old.get(field), new.get(field)) for field in sorted(differing, key=_rank)]


def _rank(field: str) -> int:
    """Group fields by kind; the sort is stable, so each kind keeps its order."""
    return next(rank for rank, kind in enumerate(FIELD_ORDER) if field.startswith(kind))


def _fields(definition: Json) -> Iterator[tuple[str, Json]]:
    fields = _mapping(definition)
    for name in ("schedule", "enabled"):
        yield name, fields.get(name)
    for group in ("config", "metadata"):
        yield from _members(group, fields.get(group))
    tasks = [_mapping(task) for task in _list(fields.get("tasks"))]
    yield "order of tasks", [task.get("name") for task in tasks] or None
    for task in tasks:
        yield f"task {task.get('name')}: function", task.get("function")
        yield from _members(f"task {task.get('name')}: config", task.get("config"))


def _members(group: str, values: Json) -> Iterator[tuple[str, Json]]:
    for key, value in sorted(_mapping(values).items()):
        yield f"{group}.{key}", value


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
