"""Check a JSON value against a JSON Schema, for the keywords that our schema uses."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, cast

from punctual.schedules.errors import TriggerDefinitionError
from punctual.schedules.text import clip, is_unicode

_TYPES: dict[str, type] = {"object": dict, "string": str, "boolean": bool}


@lru_cache(maxsize=1)
def trigger_schema() -> Mapping[str, Any]:
    """The JSON Schema of a trigger definition, shipped with the package."""
    text = files("punctual.schedules.chronex").joinpath("trigger.schema.json").read_text("utf-8")
    return cast("Mapping[str, Any]", json.loads(text))


def check(value: object, schema: Mapping[str, Any], path: str = "$") -> None:
    """Raise `TriggerDefinitionError` at the first violation; its field is the JSON path."""
    if not isinstance(value, _TYPES[schema["type"]]):
        raise refusal(path, value, f"expected {schema['type']}")
    if isinstance(value, str):
        _check_text(value, schema, path)
    if isinstance(value, dict):
        _check_object(cast("dict[str, object]", value), schema, path)


def _check_text(value: str, schema: Mapping[str, Any], path: str) -> None:
    if not is_unicode(value):
        raise refusal(path, ascii(value), "lone surrogates are not text")
    # In JSON Schema `$` matches the very end only; in Python also before a final newline.
    pattern = str(schema.get("pattern", "")).replace("$", r"\Z")
    if not re.search(pattern, value):
        raise refusal(path, value, f"does not match {schema['pattern']}")


def _check_object(value: dict[str, object], schema: Mapping[str, Any], path: str) -> None:
    for name in schema.get("required", ()):
        if name not in value:
            raise refusal(f"{path}.{name}", "", "is required")
    known = schema.get("properties", {})
    others = schema.get("additionalProperties")
    for name, item in value.items():
        if not is_unicode(name):
            raise refusal(path, ascii(name), "lone surrogates are not text")
        rule = known.get(name, others)
        if rule is not None:
            check(item, rule, f"{path}.{clip(name)}")


def refusal(path: str, value: object, reason: str) -> TriggerDefinitionError:
    text = clip(value)
    return TriggerDefinitionError(f"{path}: {reason}, got {text!r}", field=path, value=text)
