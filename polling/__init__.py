"""The declarative polling scheduler: runs async callbacks of the user's own process on cron schedules.

    scheduler = Scheduler()
    await scheduler.initialize([Registration("report", "0 6 * * *", send_report, timedelta(minutes=5))])
    ...
    await scheduler.stop()

Its tasks are jobs of the ledger, and its runs appear there beside those of the workers.

Invariants:
- The registrations are a set: an `initialize` replaces the earlier one completely, or fails and changes
  nothing.
- A task has one run at a time across all processes: a claim has a token and a lease in database time,
  and is guarded by the revision of the row from which it was decided.
- After any number of missed minutes a task starts once.

On failure: a callback that raises is retried after its fixed delay, without limit. When a process dies,
its lease expires and the next `initialize` starts the interrupted run again. While the database is away,
polls and renewals are retried; an outcome is retried for as long as the lease lasts.

| question | module |
|---|---|
| what may be registered? | `registrations`, `errors` |
| what does `initialize` change in the database? | `reconciliation` |
| why does a task start now, or not? | `eligibility` (pure), from `snapshots` and `deserialization` |
| who may run it? | `claims`, `engine` (leases), `scheduler` (heartbeat) |
| which rows does a run write? | `runs`, `outcomes`, `models` |
| when is the next poll, and how do `initialize` and `stop` interact? | `poller`, `phases` |
| which events does it emit? | `scheduler_events` |
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from punctual.polling.registrations import Registration

if TYPE_CHECKING:
    from punctual.polling.scheduler import Scheduler

__all__ = ["Registration", "Scheduler"]


def __getattr__(name: str) -> Any:
    # Django imports this package before models can be imported; `Scheduler` needs them.
    if name == "Scheduler":
        return import_module("punctual.polling.scheduler").Scheduler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
