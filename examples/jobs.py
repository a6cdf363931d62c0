"""What the platform looks for in an app: a module named `jobs`."""

from examples import basic, parallel, recovery

__all__ = ["basic", "parallel", "recovery"]
