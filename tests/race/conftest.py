"""Races need real connections, an empty ledger, an empty broker and a registry of their own."""

import pytest

from tests.flow.conftest import declared, harness

__all__ = ["declared", "harness"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """SQLite has one writer at a time; what is raced here is PostgreSQL's locking."""
    for item in items:
        if item.path.parent.name == "race":
            item.add_marker(pytest.mark.postgres)
