"""Released runs and the pace of their tasks → which of them share a message. Pure.

What is due is spread over all worker slots; a message carries no more than fits its time budget, and
only what may be stopped after the same time and waits in the same queue.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from occurrences.ready import Ready

BUDGET = 0.1  # seconds; what of a message has not started by then goes to whoever is free
FILL = 0.8 * BUDGET  # claiming and reporting take time, too
MOST = 50  # runs a message

Bundle = tuple[Ready, ...]


def bundled(runs: Sequence[Ready], paces: Mapping[str, float], *, slots: int) -> list[Bundle]:
    """`paces` holds the seconds a call takes, of tasks that have proven short; the others go alone."""
    short = [run for run in runs if run.bundle and run.task_id in paces]
    most = min(MOST, ceil(len(short) / max(slots, 1)))
    if most <= 1:
        return [(run,) for run in runs]
    chosen = {run.run_id for run in short}
    alone = [(run,) for run in runs if run.run_id not in chosen]
    return [*alone, *_filled(short, paces, most)]


def _filled(runs: Iterable[Ready], paces: Mapping[str, float], most: int) -> list[Bundle]:
    """First come, first carried; a bundle that is full makes room for the next."""
    open_: dict[tuple[str, str], tuple[list[Ready], float]] = {}
    filled: list[Bundle] = []
    for run in runs:
        kind = run.queue, run.task_timeout
        bundle, seconds = open_.get(kind, ([], 0.0))
        if bundle and (len(bundle) == most or seconds + paces[run.task_id] > FILL):
            filled.append(tuple(bundle))
            bundle, seconds = [], 0.0
        open_[kind] = [*bundle, run], seconds + paces[run.task_id]
    return [*filled, *(tuple(bundle) for bundle, _ in open_.values())]
