"""Totals of the whole ledger that never decrease: existing rows plus pruned ones (REC-6).

Both are read in one statement, because beats prune at the same time: with two statements, rows pruned between
them would be counted twice or not at all, and the counter would decrease at the next scrape.
"""

from collections import Counter as Sums
from typing import Any

from django.db.models import BigIntegerField, Count, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from punctual.occurrences.models import Attempt, Cause, Occurrence
from punctual.occurrences.states import ATTEMPT_FINAL, OCCURRENCE_FINAL
from punctual.recovery.models import Counter, Tally

Totals = Sums[tuple[str, ...]]


def occurrence_totals() -> Totals:
    """Finished instants by (job, state); a range counts every instant it represents."""
    finished = Occurrence.objects.filter(state__in=OCCURRENCE_FINAL).order_by()
    rows = finished.values_list("job__name", "state").annotate(total=_bigint(Sum("instants")))
    return _with_pruned(Counter.OCCURRENCES, rows, "job__name", "label")


def attempt_totals() -> Totals:
    """Finished attempts by (job, task, state)."""
    finished = Attempt.objects.filter(state__in=ATTEMPT_FINAL).order_by()
    keys = finished.values_list("run__task__job__name", "run__task__name", "state")
    rows = keys.annotate(total=_bigint(Count("pk")))
    return _with_pruned(Counter.ATTEMPTS, rows, "job__name", "task", "label")


def recovery_totals() -> Totals:
    """Recovered occurrences by (job, strategy)."""
    recovered = Occurrence.objects.filter(cause=Cause.RECOVERY).order_by()
    keys = recovered.annotate(strategy=KeyTextTransform("recovery", "config"))
    rows = keys.values_list("job__name", "strategy").annotate(total=_bigint(Count("pk")))
    return _with_pruned(Counter.RECOVERIES, rows, "job__name", "label")


def _bigint(count: Any) -> Cast:
    return Cast(count, BigIntegerField())


def _with_pruned(counter: Counter, rows: Any, *columns: str) -> Totals:
    tallies = Tally.objects.filter(counter=counter).order_by().values_list(*columns)
    totals: Totals = Sums()
    for *key, count in rows.union(tallies.annotate(total=_bigint(Sum("count"))), all=True):
        totals[tuple(part or "unknown" for part in key)] += count
    return totals
