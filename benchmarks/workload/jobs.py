"""The no-op as jobs of Punctual: one run per message, in bundles, and parallel."""

from typing import Any

from benchmarks.workload.start_times import note_start
from punctual import Context, Job

OWNERS = 10  # number of jobs; few enough that each task is soon measured as short
FANS = (3, 10, 100)
NEVER = "0 0 1 1 *"
FREE: dict[str, Any] = {"overlap": "allow", "pool": "benchmark", "execution_timeout": "1d"}


def noop(ctx: Context) -> None: ...


def note(ctx: Context) -> None:
    note_start()


for number in range(OWNERS):
    Job(f"alone {number}", NEVER, **FREE).task(name="noop", bundle=False)(noop)
    Job(f"short {number}", NEVER, **FREE).task(name="noop")(noop)
for size in FANS:
    fan = Job(f"fan {size}", NEVER, mode="parallel", **FREE)
    for step in range(size):
        fan.task(name=f"noop {step}")(noop)
Job("note", NEVER, **FREE).task(name="note")(note)
