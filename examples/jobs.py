"""The module that discovery imports in every installed app."""

from examples import basic, parallel, recovery

__all__ = ["basic", "parallel", "recovery"]
