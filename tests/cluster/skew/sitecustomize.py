"""Skew the wall clock of a process: Python imports this module first if its folder is on the path.

The monotonic clock is not changed: it measures durations and has no time of day.
"""

import datetime as module
import os
import sys
import time
from typing import Self

SECONDS = float(os.environ["SKEW_SECONDS"])
true_datetime, true_time, true_time_ns = module.datetime, time.time, time.time_ns


class DatetimeType(type):
    """Values that C code has made are of the true class."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, true_datetime)


class Skewed(module.datetime, metaclass=DatetimeType):
    @classmethod
    def now(cls, tz: module.tzinfo | None = None) -> Self:
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls) -> Self:
        return cls.now(module.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls) -> Self:
        return cls.now()


time.time = lambda: true_time() + SECONDS
time.time_ns = lambda: true_time_ns() + int(SECONDS * 1e9)
module.datetime = Skewed  # type: ignore[misc]
sys.stderr.write(f"skewed by {SECONDS:g} s\n")
