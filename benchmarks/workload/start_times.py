"""Record start times in a Redis list, to measure the start latency of every system."""

import os
import time
from functools import cache
from typing import Any

from redis import Redis

KEY = "benchmark:starts"


@cache
def server() -> "Redis[bytes]":
    client: Any = Redis.from_url(os.environ["BROKER_URL"].replace("redis+socket", "unix"))
    return client  # type: ignore[no-any-return]  # from_url is untyped


def note_start() -> None:
    server().rpush(KEY, repr(time.time()))
