"""The same job, broker and registry the tests of `execution` use."""

from tests.execution.conftest import declared, job, queue, second, task

__all__ = ["declared", "job", "queue", "second", "task"]
