"""A page leaves out fields without a value, and lines that become empty."""

import pytest

from punctual.console.kit.theme import nonempty_lines

pytestmark = pytest.mark.req("OPS-2")

LINES = ["name", ("state", "id"), "metadata", ("created", "changed")]


@pytest.mark.parametrize(
    ("empty", "left"),
    [
        (set[str](), LINES),
        ({"metadata"}, ["name", ("state", "id"), ("created", "changed")]),
        ({"id"}, ["name", "state", "metadata", ("created", "changed")]),
        ({"created", "changed"}, ["name", ("state", "id"), "metadata"]),
    ],
)
def test_fields_without_a_value_are_left_out(empty: set[str], left: list[object]) -> None:
    assert nonempty_lines(LINES, lambda name: name not in empty) == left
