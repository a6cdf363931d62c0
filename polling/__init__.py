"""The declarative polling scheduler: async callbacks of your own process, their history in the ledger.

    scheduler = Scheduler()
    await scheduler.initialize([Registration("report", "0 6 * * *", send_report, timedelta(minutes=5))])
    ...
    await scheduler.stop()

Invariants:
- What is registered is a set: a later `initialize` replaces an earlier one, all of it or nothing.
- A task has one run at a time, in whichever process: a run is claimed with a token and a lease in
  database time, and the claim is guarded by the revision of the row it was decided from.
- A process that dies loses its lease; the run it held is attempted again after the next `initialize`.
- However many minutes were missed, one start follows.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polling.registrations import Registration

if TYPE_CHECKING:
    from polling.scheduler import Scheduler

__all__ = ["Registration", "Scheduler"]


def __getattr__(name: str) -> Any:
    # Django imports this package before its models can be; what needs them comes on first use.
    if name == "Scheduler":
        return import_module("polling.scheduler").Scheduler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
