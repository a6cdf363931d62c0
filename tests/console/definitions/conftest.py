"""Fixtures of the editor's tests."""

from tests.console.definitions.editable_jobs import functions

__all__ = ["functions"]
