"""Check what defines a job and hold it as a frozen value, with its form as JSON (CHX-16)."""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from punctual import schedules
from punctual.jobs.config.cascade import check_combination
from punctual.jobs.config.keys import TASK_KEYS, normalize
from punctual.jobs.config.policy import policy_layer
from punctual.jobs.errors import DefinitionError
from punctual.jobs.json_values import is_storable

MAX_NAME_LENGTH = 200
MAX_SCHEDULE_LENGTH = 1000
ANY_INSTANT = datetime(2000, 1, 1, tzinfo=UTC)  # validity does not depend on the anchor
JOB_FIELDS = frozenset({"name", "schedule", "config", "metadata", "enabled", "tasks"})
TASK_FIELDS = frozenset({"name", "function", "config"})


@dataclass(frozen=True)
class TaskDefinition:
    """One task: its name, the name of its registered function, and its overrides."""

    name: str
    function: str
    config: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "function": self.function, "config": _as_json(self.config)}


@dataclass(frozen=True)
class Definition:
    """What a job runs, when, and with which overrides; `enabled` None keeps what the operator set."""

    name: str
    schedule: str
    config: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    tasks: tuple[TaskDefinition, ...] = ()
    enabled: bool | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "schedule": self.schedule,
            "config": _as_json(self.config),
            "metadata": _as_json(self.metadata),
            "tasks": [task.to_json() for task in self.tasks],
        } | ({} if self.enabled is None else {"enabled": self.enabled})

    @classmethod
    def load(cls, data: object, *, owner: str = "job") -> "Definition":
        """Read the JSON object of a file or a version row; DefinitionError names what is wrong."""
        fields = _object(data, JOB_FIELDS, owner=owner)
        name = validate_name("name", fields.get("name"), owner=owner)
        config = normalize(_mapping("config", fields.get("config", {}), owner=name), owner=name)
        check_combination(config, owner=name)
        return cls(
            name=name,
            schedule=validate_schedule(fields.get("schedule"), config, owner=name),
            config=config,
            metadata=validate_metadata(fields.get("metadata", {}), owner=name),
            tasks=validate_tasks(_tasks(fields.get("tasks"), owner=name), owner=name),
            enabled=_enabled(fields.get("enabled"), owner=name),
        )


def _as_json(value: object) -> object:
    """A mapping as a dictionary of its own; raw SQL can store any JSON instead."""
    return dict(value) if isinstance(value, Mapping) else value


def validate_name(kind: str, name: object, *, owner: str = "") -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME_LENGTH:
        raise DefinitionError(kind, name, f"expected 1 to {MAX_NAME_LENGTH} characters", owner=owner)
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in name):
        raise DefinitionError(kind, name, "control characters are not allowed", owner=owner)
    return name


def validate_schedule(text: Any, config: Mapping[str, Any], *, owner: str) -> str:
    try:
        schedules.parse(text, reference=ANY_INSTANT, timezone=config.get("timezone"))
    except schedules.ScheduleError as error:
        raise DefinitionError("schedule", text, str(error), owner=owner) from error
    if len(text) > MAX_SCHEDULE_LENGTH:
        reason = f"expected at most {MAX_SCHEDULE_LENGTH} characters"
        raise DefinitionError("schedule", text, reason, owner=owner)
    stated = policy_layer(str(text)).get("overlap")
    if stated is not None and config.get("overlap", stated) != stated:
        reason = f"the schedule's @policy says {stated}; state one of them"
        raise DefinitionError("overlap", config["overlap"], reason, owner=owner)
    return str(text)


def validate_metadata(metadata: object, *, owner: str) -> dict[str, str]:
    pairs: Any = metadata or {}
    if not isinstance(pairs, Mapping) or not all(
        isinstance(text, str) for pair in pairs.items() for text in pair
    ):
        raise DefinitionError("metadata", metadata, "expected a mapping of texts to texts", owner=owner)
    for key, value in pairs.items():
        if not is_storable(key) or not is_storable(value):
            raise DefinitionError(
                f"metadata.{key}", value, "NUL and lone surrogates cannot be stored", owner=owner
            )
    return dict(pairs)


def validate_tasks(tasks: Iterable[TaskDefinition], *, owner: str) -> tuple[TaskDefinition, ...]:
    definitions = tuple(tasks)
    names: set[str] = set()
    for task in definitions:
        if task.name in names:
            raise DefinitionError("task", task.name, "declared twice", owner=owner)
        names.add(task.name)
    return definitions


def _tasks(items: object, *, owner: str) -> Iterable[TaskDefinition]:
    if not isinstance(items, list) or not items:
        raise DefinitionError("tasks", items, "expected a list with at least one task", owner=owner)
    return (_task(item, owner=owner) for item in items)


def _task(data: object, *, owner: str) -> TaskDefinition:
    fields = _object(data, TASK_FIELDS, owner=f"{owner}/task")
    name = validate_name("task", fields.get("name"), owner=owner)
    task = f"{owner}/{name}"
    function = fields.get("function")
    if not isinstance(function, str) or not function:
        raise DefinitionError("function", function, "expected the name of a registered function", owner=task)
    overrides = _mapping("config", fields.get("config", {}), owner=task)
    return TaskDefinition(name, function, normalize(overrides, owner=task, keys=TASK_KEYS))


def _object(data: object, known: frozenset[str], *, owner: str) -> Mapping[str, Any]:
    fields = _mapping("definition", data, owner=owner)
    for key in fields:
        if key not in known:
            reason = f"unknown field; expected one of {', '.join(sorted(known))}"
            raise DefinitionError(str(key), fields[key], reason, owner=owner)
    return fields


def _mapping(field_name: str, value: object, *, owner: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DefinitionError(field_name, value, "expected an object such as {}", owner=owner)
    return value


def _enabled(value: object, *, owner: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise DefinitionError("enabled", value, "expected true or false", owner=owner)
    return value
