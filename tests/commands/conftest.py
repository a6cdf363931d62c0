"""Fixtures of the tests that run a verb against the whole flow."""

from tests.flow.conftest import harness

__all__ = ["harness"]
