"""Questions to the ledger of a cluster, for waiting and for the verdict at the end."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise
from typing import Any

from beat.models import Beat
from occurrences.models import Occurrence, OccurrenceQuerySet, TaskRun, TaskRunQuerySet
from tests.cluster.processes import ALIAS, Cluster, Process

START_TIMEOUT = 90.0


def start_beats(cluster: Cluster, count: int) -> list[Process]:
    """Beats that have all ticked."""
    beats = [cluster.start_beat() for _ in range(count)]
    cluster.wait_until(
        lambda: ticking() >= count,
        timeout=START_TIMEOUT,
        describe=lambda: f"{ticking()} of {count} beats signed in",
    )
    return beats


def ticking() -> int:
    return Beat.objects.using(ALIAS).count()


def rows(
    prefix: str = "", *, start: datetime | None = None, end: datetime | None = None
) -> OccurrenceQuerySet:
    """Occurrences of the jobs whose name starts so, after `start` up to `end`."""
    found = Occurrence.objects.using(ALIAS).filter(job__name__startswith=prefix)
    found = found if start is None else found.filter(scheduled_for__gt=start)
    return found if end is None else found.filter(scheduled_for__lte=end)


def runs(prefix: str = "") -> TaskRunQuerySet:
    return TaskRun.objects.using(ALIAS).filter(occurrence__job__name__startswith=prefix)


def instants(found: OccurrenceQuerySet) -> Counter[tuple[str, datetime]]:
    return Counter(found.values_list("job__name", "scheduled_for"))


def states(found: OccurrenceQuerySet) -> Counter[Any]:
    return Counter(found.values_list("state", flat=True))


def overlapping(spans: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    """Neighbours in time of which the later one began before the earlier one was over."""
    ordered = sorted(spans)
    return [(before[1], after[0]) for before, after in pairwise(ordered) if after[0] < before[1]]
