"""A trigger document in JSON in -> a checked, immutable trigger definition out, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from types import MappingProxyType
from typing import Any, cast

from schedules.chronex.build import parse, validate
from schedules.chronex.expression import Expression
from schedules.chronex.schema import check, refused, trigger_schema
from schedules.errors import ChronexError


@dataclass(frozen=True, slots=True)
class TriggerDefinition:
    """What an external system sends: an id, an expression, a switch and opaque metadata."""

    id: str
    expression: str
    enabled: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))

    def __hash__(self) -> int:
        return hash((self.id, self.expression, self.enabled, frozenset(self.metadata.items())))

    def __reduce__(self) -> tuple[type[TriggerDefinition], tuple[str, str, bool, dict[str, str]]]:
        # A mapping proxy cannot be pickled.
        return TriggerDefinition, (self.id, self.expression, self.enabled, dict(self.metadata))

    @classmethod
    def from_dict(cls, document: object) -> TriggerDefinition:
        """Checked against the shipped JSON Schema, then the expression by its own grammar."""
        check(document, trigger_schema())
        found = cast("dict[str, Any]", document)
        result = validate(found["expression"])
        if not result.is_valid:
            raise ChronexError(result.errors, result.warnings)
        return cls(found["id"], found["expression"], found.get("enabled", True), found.get("metadata", {}))

    @classmethod
    def from_json(cls, text: str | bytes) -> TriggerDefinition:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise refused("$", str(error), "is not JSON") from None
        return cls.from_dict(document)

    def to_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "expression": self.expression,
            "enabled": self.enabled,
            "metadata": dict(self.metadata),
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, sort_keys=True)

    def schedule(
        self, *, reference: datetime | None = None, timezone: str | tzinfo | None = None
    ) -> Expression:
        """The parsed expression, bound to this trigger's id."""
        return parse(self.expression, reference=reference, timezone=timezone, trigger_id=self.id)
