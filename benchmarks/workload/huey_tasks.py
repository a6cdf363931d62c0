"""The no-op as a huey task, queue and results in the same Redis."""

import os

from huey import RedisHuey

huey = RedisHuey("bench", url=os.environ["BROKER_URL"].replace("redis+socket", "unix"))


@huey.task()
def noop() -> int:
    return 1  # None would leave no result
