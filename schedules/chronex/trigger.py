"""Read and write trigger definitions in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from types import MappingProxyType
from typing import Any, cast

from punctual.schedules.chronex.compiler import parse, validate
from punctual.schedules.chronex.expression import Expression
from punctual.schedules.chronex.schema import check, refusal, trigger_schema
from punctual.schedules.errors import ChronexError


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
        """Check a document against the JSON Schema, then parse its expression."""
        check(document, trigger_schema())
        fields = cast("dict[str, Any]", document)
        result = validate(fields["expression"])
        if not result.is_valid:
            raise ChronexError(result.errors, result.warnings)
        return cls(
            fields["id"], fields["expression"], fields.get("enabled", True), fields.get("metadata", {})
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> TriggerDefinition:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise refusal("$", str(error), "is not JSON") from None
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
        """Parse the expression for this trigger's id."""
        return parse(self.expression, reference=reference, timezone=timezone, trigger_id=self.id)
