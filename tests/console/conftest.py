"""Fixtures of the pages, for every test of the console."""

import pytest

from tests.console.fixtures import groups, pages, root, viewer

__all__ = ["groups", "pages", "root", "viewer"]


@pytest.fixture(autouse=True)
def plain_pages(pages: None) -> None:
    """Apply `pages` to every test of the console."""
