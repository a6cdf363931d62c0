"""The same job, broker and outages the tests of `execution` use."""

from tests.execution.conftest import declared, job, on_redis, queue, second, task

__all__ = ["declared", "job", "on_redis", "queue", "second", "task"]
