"""The ledger → totals that never fall: what is there plus what was pruned (REC-6).

One aggregate over what is left and one over the tallies, each grouped by job.
"""

from collections import Counter as Count_
from typing import Any

from django.db.models import Count, Sum

from occurrences.models import Attempt, Cause, Occurrence
from occurrences.states import ATTEMPT_FINAL, OCCURRENCE_FINAL
from recovery.models import Counter, Tally

Totals = Count_[tuple[str, ...]]


def occurrences() -> Totals:
    """(job, state) → how many instants are over, pruned ones included; a range counts all it stands for."""
    over = Occurrence.objects.filter(state__in=OCCURRENCE_FINAL).order_by()
    keys = over.values_list("job__name", "state").annotate(Sum("instants"))
    return _added(Counter.OCCURRENCES, keys, "job__name", "label")


def attempts() -> Totals:
    """(job, task, state) → how many are over."""
    over = Attempt.objects.filter(state__in=ATTEMPT_FINAL).order_by()
    keys = over.values_list("run__task__job__name", "run__task__name", "state")
    return _added(Counter.ATTEMPTS, keys.annotate(Count("pk")), "job__name", "task", "label")


def recoveries() -> Totals:
    """(job, strategy) → how many occurrences recovery made up for; counted once they are over."""
    done = Occurrence.objects.filter(cause=Cause.RECOVERY).order_by()
    keys = done.values_list("job__name", "config__recovery")
    return _added(Counter.RECOVERIES, keys.annotate(Count("pk")), "job__name", "label")


def _added(counter: Counter, live: Any, *columns: str) -> Totals:
    total: Totals = Count_()
    for *key, count in live:
        total[tuple(part or "unknown" for part in key)] += count
    pruned = Tally.objects.filter(counter=counter).order_by().values_list(*columns).annotate(Sum("count"))
    for *key, count in pruned:
        total[tuple(key)] += count
    return total
