"""Check which temporal properties a trace violates, and return a witness for each violation (POL-8).

Properties 1–6 and 9–17, decided on finite traces: "eventually" means within a minute, and a trace that
ends earlier violates nothing. Where the properties, read literally, contradict each other: a crash ends
the runs in progress (2, 12), a new minute preempts a pending retry (3), and a changed registration
starts a new count (4, 12).

`order` has the properties about the order of events, `starts` those about when a start is allowed or
due; `history` derives runs and registrations from a trace.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.polling.properties import order, starts
from tests.polling.properties.history import History
from tests.polling.properties.order import Witness
from tests.polling.trace import Trace

__all__ = ["PROPERTIES", "Property", "Violation", "check"]


@dataclass(frozen=True)
class Property:
    title: str
    violations: Callable[[History], Iterator[Witness]]


@dataclass(frozen=True)
class Violation:
    number: int
    title: str
    witness: Witness

    def __str__(self) -> str:
        return f"property {self.number} ({self.title}): " + ", ".join(map(str, self.witness))


PROPERTIES: Mapping[int, Property] = {
    1: Property("well-formed runs", order.well_formed_runs),
    2: Property("no overlap within a task", order.no_overlap),
    3: Property("eligibility", starts.eligible),
    4: Property("no make-up executions", starts.no_make_up),
    5: Property("stop quiescence", order.quiet_after_stop),
    6: Property("crash consistency", order.crash_consistency),
    9: Property("stop flushes completely", order.stop_flushes),
    10: Property("interrupted callbacks restart", starts.interrupted_restart),
    11: Property("one start at one instant", starts.one_start_per_instant),
    12: Property("at most once between due minutes", starts.one_start_per_due_minute),
    13: Property("bounded scheduling lag", starts.bounded_lag),
    14: Property("no fabricated completions", order.no_fabricated_ends),
    15: Property("eventual execution", starts.never_starved),
    16: Property("termination of stop", order.stop_terminates),
    17: Property("recovery after a crash", starts.recovers),
}


def check(trace: Trace) -> list[Violation]:
    history = History(trace)
    return [
        Violation(number, item.title, witness)
        for number, item in PROPERTIES.items()
        for witness in item.violations(history)
    ]
