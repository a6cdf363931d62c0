"""Every test here may ask for a page."""

import pytest

from tests.console.pages import groups, pages, root, viewer

__all__ = ["groups", "pages", "root", "viewer"]


@pytest.fixture(autouse=True)
def plain_pages(pages: None) -> None:
    """Applied to all of them."""
