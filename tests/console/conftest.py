"""Every test here may ask for a page."""

import pytest

from tests.console.pages import pages, root, viewer

__all__ = ["pages", "root", "viewer"]


@pytest.fixture(autouse=True)
def plain_pages(pages: None) -> None:
    """Applied to all of them."""
