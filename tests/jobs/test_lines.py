"""Lines of a page: what tells nothing goes, and with it the line that had nothing else."""

import pytest

from jobs.lines import telling

pytestmark = pytest.mark.req("OPS-2")

LINES = ["name", ("state", "id"), "metadata", ("created", "changed")]


@pytest.mark.parametrize(
    ("silent", "left"),
    [
        (set[str](), LINES),
        ({"metadata"}, ["name", ("state", "id"), ("created", "changed")]),
        ({"id"}, ["name", "state", "metadata", ("created", "changed")]),
        ({"created", "changed"}, ["name", ("state", "id"), "metadata"]),
    ],
)
def test_what_tells_nothing_is_left_out(silent: set[str], left: list[object]) -> None:
    assert telling(LINES, lambda name: name not in silent) == left
