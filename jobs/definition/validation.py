"""Find every mistake in a JSON definition, not only the first.

`Definition.load` holds all rules and stops at the first mistake. So each part is loaded alone, beside parts
that are known to be valid; there is no second set of rules.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from punctual.jobs.config.cascade import RECOVERY_BOUNDS
from punctual.jobs.config.keys import read_setting
from punctual.jobs.definition.document import Definition
from punctual.jobs.errors import DefinitionError
from punctual.jobs.json_values import find_mistakes

VALID_TASK: dict[str, Any] = {"name": "task", "function": "function"}
VALID_JOB: dict[str, Any] = {"name": "job", "schedule": "@daily", "tasks": [VALID_TASK]}


def validate(data: object) -> Definition | list[DefinitionError]:
    """Return the definition, or all its mistakes, at least one."""
    if mistakes := list(find_mistakes(data, "")):
        return mistakes
    try:
        return Definition.load(data)
    except DefinitionError as first:
        valid = {**VALID_JOB, **_name_if_valid(data)}
        parts = ({**valid, **part} for part in _parts(data))
        return [error for part in parts if (error := _mistake(part, owner=valid["name"]))] or [first]


def _mistake(data: object, *, owner: str = "job") -> DefinitionError | None:
    try:
        Definition.load(data, owner=owner)
    except DefinitionError as error:
        return error
    return None


def _name_if_valid(data: object) -> dict[str, Any]:
    """Return the job's name if it is valid: messages begin with it."""
    name = {"name": data.get("name")} if isinstance(data, Mapping) else {}
    return {} if _mistake({**VALID_JOB, **name}) else name


def _parts(data: object) -> Iterator[dict[str, Any]]:
    if not isinstance(data, Mapping):
        return
    for key in dict.fromkeys((*VALID_JOB, *data)):
        match key, data.get(key):
            case "config", Mapping() as config:
                yield from ({"config": part} for part in _setting_parts(config))
            case "tasks", [*tasks] if tasks:
                yield from ({"tasks": [part]} for task in tasks for part in _task_parts(task))
                yield {"tasks": [{**VALID_TASK, "name": name} for name in _names(tasks)]}
            case _, value:
                yield {key: value}


def _setting_parts(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Each setting alone; those of recovery are checked together, if each of them is valid."""
    bounds = ("recovery", *RECOVERY_BOUNDS)
    together = {key: config[key] for key in bounds if key in config}
    yield from ({key: value} for key, value in config.items() if key not in together)
    broken = [{key: value} for key, value in together.items() if not _is_valid_setting(key, value)]
    yield from broken or [together]


def _is_valid_setting(key: str, value: object) -> bool:
    try:
        read_setting(key, value, owner="")
    except DefinitionError:
        return False
    return True


def _task_parts(task: object) -> Iterator[object]:
    if not isinstance(task, Mapping):
        yield task
        return
    name = {"name": task["name"]} if isinstance(task.get("name"), str) else {}
    for key in dict.fromkeys((*VALID_TASK, *task)):
        match key, task.get(key):
            case "config", Mapping() as config:
                yield from (
                    {**VALID_TASK, **name, "config": {setting: config[setting]}} for setting in config
                )
            case _, value:
                yield {**VALID_TASK, **name, key: value}


def _names(tasks: list[Any]) -> list[str]:
    names = [task.get("name") for task in tasks if isinstance(task, Mapping)]
    return [name for name in names if isinstance(name, str) and name.strip()]
