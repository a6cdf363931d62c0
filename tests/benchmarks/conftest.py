"""The harness of the whole stories."""

from tests.flow.conftest import harness

__all__ = ["harness"]
