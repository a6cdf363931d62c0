"""Decide which released runs share a message. Pure.

Runs are spread over all worker slots. A message carries no more than fits its time budget, and only runs with
the same queue and the same timeout.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from punctual.occurrences.outbox import Ready

BUDGET = 0.1  # seconds; runs of a message that have not started by then are handed back
FILL = 0.8 * BUDGET  # the rest is for claiming and reporting
MAX_RUNS = 50  # in one message

Bundle = tuple[Ready, ...]


def bundle_runs(runs: Sequence[Ready], paces: Mapping[str, float], *, slots: int) -> list[Bundle]:
    """`paces` holds the seconds per call of tasks known to be short; runs of other tasks travel alone."""
    short = [run for run in runs if run.bundle and run.task_id in paces]
    size = min(MAX_RUNS, ceil(len(short) / max(slots, 1)))
    if size <= 1:
        return [(run,) for run in runs]
    short_ids = {run.run_id for run in short}
    alone = [(run,) for run in runs if run.run_id not in short_ids]
    return [*alone, *_fill_bundles(short, paces, size)]


def _fill_bundles(runs: Iterable[Ready], paces: Mapping[str, float], size: int) -> list[Bundle]:
    """Fill one bundle per queue and timeout, in the order of the runs; a full bundle is closed."""
    open_bundles: dict[tuple[str, str], tuple[list[Ready], float]] = {}
    closed: list[Bundle] = []
    for run in runs:
        kind = run.queue, run.task_timeout
        bundle, seconds = open_bundles.get(kind, ([], 0.0))
        if bundle and (len(bundle) == size or seconds + paces[run.task_id] > FILL):
            closed.append(tuple(bundle))
            bundle, seconds = [], 0.0
        open_bundles[kind] = [*bundle, run], seconds + paces[run.task_id]
    return [*closed, *(tuple(bundle) for bundle, _ in open_bundles.values())]
