"""The no-op as Punctual's jobs: alone, in bundles, and fanned out."""

from typing import Any

from benchmarks.workload.starts import noted
from jobs import Context, Job

OWNERS = 10  # jobs the load is spread over; few enough that each task has soon proven short
FANS = (3, 10, 100)
NEVER = "0 0 1 1 *"
FREE: dict[str, Any] = {"overlap": "allow", "pool": "benchmark", "execution_timeout": "1d"}


def noop(ctx: Context) -> None: ...


def note(ctx: Context) -> None:
    noted()


for number in range(OWNERS):
    Job(f"alone {number}", NEVER, **FREE).task(name="noop", bundle=False)(noop)
    Job(f"short {number}", NEVER, **FREE).task(name="noop")(noop)
for size in FANS:
    fan = Job(f"fan {size}", NEVER, mode="parallel", **FREE)
    for step in range(size):
        fan.task(name=f"noop {step}")(noop)
Job("note", NEVER, **FREE).task(name="note")(note)
