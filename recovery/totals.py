"""The ledger → totals that never fall: what is there plus what was pruned (REC-6).

Both in one statement. Beats prune while somebody scrapes: with two statements, what is pruned between
them would be counted twice, or not at all, and the counter would fall the next time.
"""

from collections import Counter as Count_
from typing import Any

from django.db.models import BigIntegerField, Count, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from occurrences.models import Attempt, Cause, Occurrence
from occurrences.states import ATTEMPT_FINAL, OCCURRENCE_FINAL
from recovery.models import Counter, Tally

Totals = Count_[tuple[str, ...]]


def occurrences() -> Totals:
    """(job, state) → how many instants are over, pruned ones included; a range counts all it stands for."""
    over = Occurrence.objects.filter(state__in=OCCURRENCE_FINAL).order_by()
    keys = over.values_list("job__name", "state").annotate(found=_big(Sum("instants")))
    return _added(Counter.OCCURRENCES, keys, "job__name", "label")


def attempts() -> Totals:
    """(job, task, state) → how many are over."""
    over = Attempt.objects.filter(state__in=ATTEMPT_FINAL).order_by()
    keys = over.values_list("run__task__job__name", "run__task__name", "state")
    return _added(Counter.ATTEMPTS, keys.annotate(found=_big(Count("pk"))), "job__name", "task", "label")


def recoveries() -> Totals:
    """(job, strategy) → how many occurrences recovery made up for; counted once they are over."""
    done = Occurrence.objects.filter(cause=Cause.RECOVERY).order_by()
    keys = done.annotate(strategy=KeyTextTransform("recovery", "config")).values_list("job__name", "strategy")
    return _added(Counter.RECOVERIES, keys.annotate(found=_big(Count("pk"))), "job__name", "label")


def _big(count: Any) -> Cast:
    return Cast(count, BigIntegerField())


def _added(counter: Counter, live: Any, *columns: str) -> Totals:
    pruned = Tally.objects.filter(counter=counter).order_by().values_list(*columns)
    total: Totals = Count_()
    for *key, count in live.union(pruned.annotate(found=_big(Sum("count"))), all=True):
        total[tuple(part or "unknown" for part in key)] += count
    return total
