"""Fixtures of the race tests: real connections, an empty ledger, broker and registry."""

import pytest

from tests.flow.conftest import declared, harness

__all__ = ["declared", "harness"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark race tests for PostgreSQL: SQLite has one writer at a time, so nothing races there."""
    for item in items:
        if item.path.parent.name == "race":
            item.add_marker(pytest.mark.postgres)
