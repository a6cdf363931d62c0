"""A definition as JSON → its value, or every mistake in it, not only the first.

`Definition.load` is the one gate and stops at the first mistake. So each part goes through it alone,
beside parts that are known to be good; nothing is checked by a second set of rules.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jobs.definition import Definition
from jobs.errors import DefinitionError

TASK: dict[str, Any] = {"name": "task", "function": "function"}
GOOD: dict[str, Any] = {"name": "job", "schedule": "@daily", "tasks": [TASK]}


def checked(data: object) -> Definition | list[DefinitionError]:
    """The definition, or at least one mistake."""
    if found := list(_unstorable(data, "")):
        return found
    try:
        return Definition.load(data)
    except DefinitionError as first:
        good = {**GOOD, **_owner(data)}
        parts = ({**good, **part} for part in _parts(data))
        return [error for part in parts if (error := _refusal(part, owner=good["name"]))] or [first]


def _refusal(data: object, *, owner: str = "job") -> DefinitionError | None:
    try:
        Definition.load(data, owner=owner)
    except DefinitionError as error:
        return error
    return None


def _owner(data: object) -> dict[str, Any]:
    """The job's name, where it has a good one: messages begin with it."""
    name = {"name": data.get("name")} if isinstance(data, Mapping) else {}
    return {} if _refusal({**GOOD, **name}) else name


def _parts(data: object) -> Iterator[dict[str, Any]]:
    if not isinstance(data, Mapping):
        return
    for key in dict.fromkeys((*GOOD, *data)):
        match key, data.get(key):
            case "config", Mapping() as config:
                yield from ({"config": {setting: value}} for setting, value in config.items())
            case "tasks", [*tasks] if tasks:
                yield from ({"tasks": [part]} for task in tasks for part in _task_parts(task))
                yield {"tasks": [{**TASK, "name": name} for name in _names(tasks)]}
            case _, value:
                yield {key: value}


def _task_parts(task: object) -> Iterator[object]:
    if not isinstance(task, Mapping):
        yield task
        return
    name = {"name": task["name"]} if isinstance(task.get("name"), str) else {}
    for key in dict.fromkeys((*TASK, *task)):
        match key, task.get(key):
            case "config", Mapping() as config:
                yield from ({**TASK, **name, "config": {setting: config[setting]}} for setting in config)
            case _, value:
                yield {**TASK, **name, key: value}


def _names(tasks: list[Any]) -> list[str]:
    names = [task.get("name") for task in tasks if isinstance(task, Mapping)]
    return [name for name in names if isinstance(name, str) and name.strip()]


def _unstorable(value: object, path: str) -> Iterator[DefinitionError]:
    """Texts no database takes, and keys no JSON object can have."""
    if isinstance(value, str) and ("\0" in value or _has_surrogate(value)):
        yield DefinitionError(path or "definition", value, "NUL and half surrogates are not allowed")
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from _unstorable(item, f"{path}[{n}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                yield DefinitionError(path or "definition", key, "expected a text as key")
            else:
                yield from _unstorable(key, path)
                yield from _unstorable(item, f"{path}.{key}" if path else key)


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)
