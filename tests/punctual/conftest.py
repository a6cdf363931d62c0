"""Fixtures of the tests of the package's own modules."""

from tests.execution.conftest import declared

__all__ = ["declared"]
