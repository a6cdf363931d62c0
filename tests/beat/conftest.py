"""Share the job, broker and registry fixtures of the tests of `execution`."""

from tests.execution.conftest import declared, job, queue, second, task

__all__ = ["declared", "job", "queue", "second", "task"]
