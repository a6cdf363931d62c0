"""Trigger documents: JSON in, JSON out, checked against the schema that ships with the package."""

from __future__ import annotations

import json
import pickle
from datetime import timedelta

import pytest

from punctual.schedules.chronex import ChronexError, TriggerDefinition
from punctual.schedules.chronex.schema import trigger_schema
from punctual.schedules.errors import TriggerDefinitionError
from tests.schedules.oracle import utc

DOCUMENT = {
    "id": "health-check",
    "expression": "TZ=UTC @every 15m {stagger:3m}",
    "enabled": False,
    "metadata": {"endpoint": "https://api.example.com/health", "env": "prod"},
}


@pytest.mark.req("CHX-16")
def test_a_document_round_trips() -> None:
    trigger = TriggerDefinition.from_json(json.dumps(DOCUMENT))
    assert trigger.to_dict() == DOCUMENT
    assert json.loads(trigger.to_json()) == DOCUMENT
    assert TriggerDefinition.from_json(trigger.to_json().encode()) == trigger
    assert hash(trigger) == hash(TriggerDefinition.from_dict(DOCUMENT))
    assert trigger.metadata["env"] == "prod"
    with pytest.raises(TypeError):
        trigger.metadata["env"] = "test"  # type: ignore[index]  # the point of the test
    assert pickle.loads(pickle.dumps(trigger)) == trigger  # noqa: S301 -- our own bytes


@pytest.mark.req("CHX-16")
def test_enabled_and_metadata_have_defaults() -> None:
    trigger = TriggerDefinition.from_dict({"id": "a", "expression": "@daily"})
    assert trigger.enabled
    assert dict(trigger.metadata) == {}


@pytest.mark.req("CHX-16")
def test_its_schedule_is_bound_to_its_id() -> None:
    trigger = TriggerDefinition.from_dict({"id": "a", "expression": "@every 1h-2h"})
    start = utc(2026, 1, 1)
    expected = trigger.schedule(reference=start).for_trigger("a").next_after(start)
    assert trigger.schedule(reference=start).next_after(start) == expected
    assert TriggerDefinition.from_dict({"id": "b", "expression": "@once +20m"}).schedule(
        reference=start, timezone="Asia/Seoul"
    ).once_at == start + timedelta(minutes=20)


@pytest.mark.req("CHX-16")
@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], "$"),
        (None, "$"),
        ({}, "$.id"),
        ({"id": "a"}, "$.expression"),
        ({"id": "", "expression": "@daily"}, "$.id"),
        ({"id": "a b", "expression": "@daily"}, "$.id"),
        ({"id": "a\n", "expression": "@daily"}, "$.id"),
        ({"id": 5, "expression": "@daily"}, "$.id"),
        ({"id": "a", "expression": None}, "$.expression"),
        ({"id": "a", "expression": "@daily", "enabled": 1}, "$.enabled"),
        ({"id": "a", "expression": "@daily", "metadata": []}, "$.metadata"),
        ({"id": "a", "expression": "@daily", "metadata": {"k": 1}}, "$.metadata.k"),
    ],
)
def test_what_the_schema_refuses_is_named_by_its_path(document: object, path: str) -> None:
    with pytest.raises(TriggerDefinitionError) as caught:
        TriggerDefinition.from_dict(document)
    assert caught.value.field == path


@pytest.mark.req("CHX-16")
@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"id": NaN', "9" * 5000, "\x00", b"\xff"])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(TriggerDefinitionError) as caught:
        TriggerDefinition.from_json(text)
    assert caught.value.field == "$"


@pytest.mark.req("CHX-16")
def test_a_bad_expression_keeps_its_own_error() -> None:
    with pytest.raises(ChronexError) as caught:
        TriggerDefinition.from_dict({"id": "a", "expression": "61 * * * *"})
    assert caught.value.code == "E002"


@pytest.mark.req("CHX-16")
def test_unknown_keys_are_allowed_as_the_schema_says() -> None:
    trigger = TriggerDefinition.from_dict({"id": "a", "expression": "@daily", "owner": 5})
    assert "owner" not in trigger.to_dict()
    assert "additionalProperties" not in trigger_schema()
    assert trigger_schema()["required"] == ["id", "expression"]
