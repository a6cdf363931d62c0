"""A trace in → the temporal properties it violates, each with a witness (POL-8).

Properties 1–6 and 9–17, decided on finite traces: what shall happen "eventually" is owed within a
minute, and nothing is held against a trace that ends before. Where the properties read literally
would contradict each other, the reading is: a crash ends the runs it cuts off (2, 12), a new minute
goes ahead of a waiting retry (3), and a changed registration starts a new count (4, 12).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from polling.properties import order, timing
from polling.properties.history import History
from polling.properties.order import Witness
from polling.trace import Trace

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
    3: Property("eligibility", timing.eligible),
    4: Property("no make-up executions", timing.no_make_up),
    5: Property("stop quiescence", order.quiet_after_stop),
    6: Property("crash consistency", order.crash_consistency),
    9: Property("stop flushes completely", order.stop_flushes),
    10: Property("interrupted callbacks restart", timing.interrupted_restart),
    11: Property("one start at one instant", timing.one_start_per_instant),
    12: Property("at most once between due minutes", timing.one_start_per_due_minute),
    13: Property("bounded scheduling lag", timing.bounded_lag),
    14: Property("no fabricated completions", order.no_made_up_ends),
    15: Property("eventual execution", timing.never_starved),
    16: Property("termination of stop", order.stop_terminates),
    17: Property("recovery after a crash", timing.recovers),
}


def check(trace: Trace) -> list[Violation]:
    history = History(trace)
    return [
        Violation(number, item.title, witness)
        for number, item in PROPERTIES.items()
        for witness in item.violations(history)
    ]
