"""Two definitions as JSON, and what is said about their difference."""

import pytest

from jobs.changes import Changed, changes

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


def test_equal_definitions_differ_in_nothing() -> None:
    assert changes(BEFORE, {**BEFORE}) == []


def test_each_setting_and_each_text_is_a_change_of_its_own() -> None:
    after = {**BEFORE, "config": {"mode": "parallel"}, "metadata": {"owner": "x"}, "enabled": False}
    assert changes(BEFORE, after) == [
        Changed("enabled", before=True, after=False),
        Changed("config.mode", before=None, after="parallel"),
        Changed("metadata.owner", before=None, after="x"),
    ]


def test_a_task_added_is_its_place_its_function_and_its_settings() -> None:
    assert changes(BEFORE, {**BEFORE, "tasks": [LOAD, EXTRACT]}) == [
        Changed("order of tasks", ["extract"], ["load", "extract"]),
        Changed("task load: function", None, "shop.load"),
        Changed("task load: config.queue", None, "slow"),
    ]


def test_a_task_removed_is_the_same_backwards() -> None:
    found = changes({**BEFORE, "tasks": [EXTRACT, LOAD]}, BEFORE)
    assert Changed("task load: function", "shop.load", None) in found
    assert Changed("order of tasks", ["extract", "load"], ["extract"]) in found


def test_something_new_has_everything_to_show_in_the_order_of_its_fields() -> None:
    found = changes(None, {**BEFORE, "config": {"mode": "parallel"}})
    assert [one.field for one in found] == [
        "schedule", "enabled", "config.mode", "order of tasks", "task extract: function",
    ]  # fmt: skip


@pytest.mark.parametrize("odd", [None, 7, [], {"tasks": 3}, {"config": [1]}, {"tasks": [1, None]}])
def test_what_is_no_definition_has_no_fields(odd: object) -> None:
    assert [one.after for one in changes(BEFORE, odd)]
    assert changes(odd, odd) == []
