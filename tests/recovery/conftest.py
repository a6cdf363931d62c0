"""Share the job, broker and outage fixtures of the tests of `execution`."""

from tests.execution.conftest import declared, job, on_redis, queue, second, task

__all__ = ["declared", "job", "on_redis", "queue", "second", "task"]
