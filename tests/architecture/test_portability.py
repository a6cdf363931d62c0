"""The list of tests that are not repeated on SQLite names what exists."""

from pathlib import Path

import pytest

from tests.conftest import SAME_ON_EVERY_DATABASE

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("path", SAME_ON_EVERY_DATABASE)
def test_what_is_left_out_on_sqlite_exists(path: str) -> None:
    assert (TESTS / path).exists()


def test_rooms_that_write_to_the_database_are_repeated_on_sqlite() -> None:
    rooms = {"beat", "execution", "flow", "jobs", "occurrences", "operations", "polling", "recovery"}
    assert not rooms & set(SAME_ON_EVERY_DATABASE)
