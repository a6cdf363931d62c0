"""Queries of a cluster's ledger."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise
from typing import Any

from punctual.execution.models import Process as ProcessRow
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.querysets import OccurrenceQuerySet, TaskRunQuerySet
from tests.cluster.processes import ALIAS, Cluster, Process

START_TIMEOUT = 90.0


def start_beats(cluster: Cluster, count: int) -> list[Process]:
    """Start beats; return when all have ticked."""
    beats = [cluster.start_beat() for _ in range(count)]
    cluster.wait_until(
        lambda: count_beats() >= count,
        timeout=START_TIMEOUT,
        describe=lambda: f"{count_beats()} of {count} beats signed in",
    )
    return beats


def count_beats() -> int:
    return ProcessRow.objects.using(ALIAS).beats().count()


def occurrences_of(
    prefix: str = "", *, start: datetime | None = None, end: datetime | None = None
) -> OccurrenceQuerySet:
    """Occurrences in (start, end] of the jobs whose names start with the prefix."""
    occurrences = Occurrence.objects.using(ALIAS).filter(job__name__startswith=prefix)
    occurrences = occurrences if start is None else occurrences.filter(scheduled_for__gt=start)
    return occurrences if end is None else occurrences.filter(scheduled_for__lte=end)


def runs_of(prefix: str = "") -> TaskRunQuerySet:
    return TaskRun.objects.using(ALIAS).filter(occurrence__job__name__startswith=prefix)


def count_instants(occurrences: OccurrenceQuerySet) -> Counter[tuple[str, datetime]]:
    return Counter(occurrences.values_list("job__name", "scheduled_for"))


def count_states(occurrences: OccurrenceQuerySet) -> Counter[Any]:
    return Counter(occurrences.values_list("state", flat=True))


def find_overlaps(spans: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    """Neighbouring spans of which the later starts before the earlier has ended."""
    ordered = sorted(spans)
    return [(before[1], after[0]) for before, after in pairwise(ordered) if after[0] < before[1]]
