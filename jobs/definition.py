"""Text, JSON or a declaration → a job's definition as one checked, frozen value, and back (CHX-16).

The one gate for everything that defines a job: decorators, files, the admin and commands all build a
`Definition`, so the same mistake gets the same words everywhere.
"""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import schedules
from jobs.config import TASK_KEYS, normalized
from jobs.errors import DefinitionError

LONGEST_NAME = 200
LONGEST_SCHEDULE = 1000
ANY_INSTANT = datetime(2000, 1, 1, tzinfo=UTC)  # validity does not depend on the anchor
JOB_FIELDS = frozenset({"name", "schedule", "config", "metadata", "enabled", "tasks"})
TASK_FIELDS = frozenset({"name", "function", "config"})


@dataclass(frozen=True)
class TaskDefinition:
    name: str
    function: str
    config: Mapping[str, Any] = field(default_factory=dict)

    def dumped(self) -> dict[str, Any]:
        return {"name": self.name, "function": self.function, "config": dict(self.config)}


@dataclass(frozen=True)
class Definition:
    """`enabled` None leaves the switch as the operator set it."""

    name: str
    schedule: str
    config: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    tasks: tuple[TaskDefinition, ...] = ()
    enabled: bool | None = None

    def dumped(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "schedule": self.schedule,
            "config": dict(self.config),
            "metadata": dict(self.metadata),
            "tasks": [task.dumped() for task in self.tasks],
        } | ({} if self.enabled is None else {"enabled": self.enabled})

    @classmethod
    def load(cls, data: object, *, owner: str = "job") -> "Definition":
        """A JSON object, as files and version rows hold it; DefinitionError names what is wrong."""
        given = _object(data, JOB_FIELDS, owner=owner)
        name = checked_name("name", given.get("name"), owner=owner)
        config = normalized(_mapping("config", given.get("config", {}), owner=name), owner=name)
        return cls(
            name=name,
            schedule=checked_schedule(given.get("schedule"), config, owner=name),
            config=config,
            metadata=checked_metadata(given.get("metadata", {}), owner=name),
            tasks=checked_tasks(_tasks(given.get("tasks"), owner=name), owner=name),
            enabled=_enabled(given.get("enabled"), owner=name),
        )


def checked_name(kind: str, name: object, *, owner: str = "") -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME:
        raise DefinitionError(kind, name, f"expected 1 to {LONGEST_NAME} characters", owner=owner)
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in name):
        raise DefinitionError(kind, name, "control characters are not allowed", owner=owner)
    return name


def checked_schedule(text: Any, config: Mapping[str, Any], *, owner: str) -> str:
    try:
        schedules.parse(text, reference=ANY_INSTANT, timezone=config.get("timezone"))
    except schedules.ScheduleError as error:
        raise DefinitionError("schedule", text, str(error), owner=owner) from error
    if len(text) > LONGEST_SCHEDULE:
        reason = f"expected at most {LONGEST_SCHEDULE} characters"
        raise DefinitionError("schedule", text, reason, owner=owner)
    return str(text)


def checked_metadata(metadata: object, *, owner: str) -> dict[str, str]:
    pairs: Any = metadata or {}
    if not isinstance(pairs, Mapping) or not all(
        isinstance(text, str) for pair in pairs.items() for text in pair
    ):
        raise DefinitionError("metadata", metadata, "expected a mapping of texts to texts", owner=owner)
    for key, value in pairs.items():
        if not storable(key) or not storable(value):
            raise DefinitionError(
                f"metadata.{key}", value, "NUL and lone surrogates cannot be stored", owner=owner
            )
    return dict(pairs)


def storable(text: str) -> bool:
    """Whether PostgreSQL takes it as text and as JSON."""
    return "\0" not in text and not any(unicodedata.category(character) == "Cs" for character in text)


def checked_tasks(tasks: Iterable[TaskDefinition], *, owner: str) -> tuple[TaskDefinition, ...]:
    found = tuple(tasks)
    seen: set[str] = set()
    for task in found:
        if task.name in seen:
            raise DefinitionError("task", task.name, "declared twice", owner=owner)
        seen.add(task.name)
    return found


def _tasks(items: object, *, owner: str) -> Iterable[TaskDefinition]:
    if not isinstance(items, list) or not items:
        raise DefinitionError("tasks", items, "expected a list with at least one task", owner=owner)
    return (_task(item, owner=owner) for item in items)


def _task(data: object, *, owner: str) -> TaskDefinition:
    given = _object(data, TASK_FIELDS, owner=f"{owner}/task")
    name = checked_name("task", given.get("name"), owner=owner)
    where = f"{owner}/{name}"
    function = given.get("function")
    if not isinstance(function, str) or not function:
        raise DefinitionError("function", function, "expected the name of a registered function", owner=where)
    overrides = _mapping("config", given.get("config", {}), owner=where)
    return TaskDefinition(name, function, normalized(overrides, owner=where, keys=TASK_KEYS))


def _object(data: object, fields: frozenset[str], *, owner: str) -> Mapping[str, Any]:
    given = _mapping("definition", data, owner=owner)
    for key in given:
        if key not in fields:
            reason = f"unknown field; expected one of {', '.join(sorted(fields))}"
            raise DefinitionError(str(key), given[key], reason, owner=owner)
    return given


def _mapping(name_of: str, value: object, *, owner: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DefinitionError(name_of, value, "expected an object such as {}", owner=owner)
    return value


def _enabled(value: object, *, owner: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise DefinitionError("enabled", value, "expected true or false", owner=owner)
    return value
