"""Jobs with one kind of ending each, which a benchmark triggers, and a fleet of hourly jobs for the tick.

ROAD_FLEET is the number of hourly jobs; ROAD_FLEET_FAILS=1 lets the first attempt of each of their runs fail.
"""

import os
from datetime import UTC, datetime
from typing import Any

from punctual import Context, Job, Retry

OWNERS = 10  # jobs of the plain kind
FAN = 10
# Half a year ahead: these jobs are triggered, and no simulated tick of the fleet reaches their own schedule.
NEVER = f"0 0 1 {(datetime.now(UTC).month + 5) % 12 + 1} *"
FREE: dict[str, Any] = {"overlap": "allow", "pool": "benchmark", "execution_timeout": "1d"}
RETRY = Retry(3, "1h")


class ExpectedError(Exception):
    """Raised by the tasks that fail."""


def noop(ctx: Context) -> None: ...


def fail(ctx: Context) -> None:
    raise ExpectedError("as every time")


def fail_once(ctx: Context) -> None:
    if ctx.attempt == 0:
        raise ExpectedError("the first time")


def noop_in_transaction(ctx: Context) -> None:
    """Whether a function is transactional belongs to the function, so that `noop` cannot be both."""


for number in range(OWNERS):
    Job(f"plain {number}", NEVER, **FREE).task(name="noop")(noop)
Job("failing", NEVER, retry=RETRY, **FREE).task(name="fail")(fail)
Job("transactional", NEVER, **FREE).task(name="noop", transactional=True)(noop_in_transaction)
fan = Job("parallel", NEVER, mode="parallel", **FREE)
for number in range(FAN):
    fan.task(name=f"noop {number}")(noop)
for number in range(int(os.environ.get("ROAD_FLEET", "0"))):
    hourly = Job(f"fleet {number}", "0 * * * *", retry=RETRY, **FREE)
    hourly.task(name="step")(fail_once if os.environ.get("ROAD_FLEET_FAILS") else noop)
