"""The fields in which two JSON definitions differ."""

import pytest

from punctual.jobs.definition.comparison import FieldChange, field_changes

pytestmark = pytest.mark.req("JOB-5")

EXTRACT = {"name": "extract", "function": "shop.extract", "config": {}}
LOAD = {"name": "load", "function": "shop.load", "config": {"queue": "slow"}}
BEFORE = {
    "name": "etl",
    "schedule": "0 2 * * *",
    "enabled": True,
    "config": {},
    "metadata": {},
    "tasks": [EXTRACT],
}


def test_equal_definitions_have_no_changes() -> None:
    assert field_changes(BEFORE, {**BEFORE}) == []


def test_each_setting_and_each_text_is_a_change_of_its_own() -> None:
    after = {**BEFORE, "config": {"mode": "parallel"}, "metadata": {"owner": "x"}, "enabled": False}
    assert field_changes(BEFORE, after) == [
        FieldChange("enabled", before=True, after=False),
        FieldChange("config.mode", before=None, after="parallel"),
        FieldChange("metadata.owner", before=None, after="x"),
    ]


def test_an_added_task_changes_order_function_and_settings() -> None:
    assert field_changes(BEFORE, {**BEFORE, "tasks": [LOAD, EXTRACT]}) == [
        FieldChange("order of tasks", ["extract"], ["load", "extract"]),
        FieldChange("task load: function", None, "shop.load"),
        FieldChange("task load: config.queue", None, "slow"),
    ]


def test_a_removed_task_changes_order_and_function() -> None:
    changes = field_changes({**BEFORE, "tasks": [EXTRACT, LOAD]}, BEFORE)
    assert FieldChange("task load: function", "shop.load", None) in changes
    assert FieldChange("order of tasks", ["extract", "load"], ["extract"]) in changes


def test_a_new_definition_lists_all_its_fields_in_order() -> None:
    changes = field_changes(None, {**BEFORE, "config": {"mode": "parallel"}})
    assert [change.field for change in changes] == [
        "schedule", "enabled", "config.mode", "order of tasks", "task extract: function",
    ]  # fmt: skip


@pytest.mark.parametrize("odd", [None, 7, [], {"tasks": 3}, {"config": [1]}, {"tasks": [1, None]}])
def test_anything_but_a_json_object_has_no_fields(odd: object) -> None:
    assert [change.after for change in field_changes(BEFORE, odd)]
    assert field_changes(odd, odd) == []
