"""How the newest occurrences of jobs ended and how long they took, drawn as bars.

Two queries for any number of jobs and any length of history: where the newest twenty of each begin, then
those rows. A window function would read all of history.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.db.models import Min, OuterRef, Q, Subquery
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from punctual.console.kit.badges import CHART_LOOK, CHART_WORDS
from punctual.console.kit.charts import picture
from punctual.console.kit.display import NOTHING, format_span
from punctual.jobs.models import Job
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.states import OccurrenceState

MAX_OUTCOMES = 20
HEIGHT, LOWEST = 20.0, 4.0
ANY_ID = UUID(int=0)  # placeholder in a URL: reversing is slow, and a list needs a thousand


@dataclass(frozen=True)
class Ended:
    """One occurrence that is over."""

    id: UUID
    state: OccurrenceState
    reason: str
    scheduled_for: datetime
    took: timedelta | None


def histories(jobs: Sequence[UUID]) -> dict[UUID, list[Ended]]:
    """Return the newest finished occurrences of each job, newest first."""
    ended: dict[UUID, list[Ended]] = defaultdict(list)
    rows = Occurrence.objects.filter(_newest(jobs), finished_at__isnull=False)
    columns = ("job", "id", "state", "reason", "scheduled_for", "started_at", "finished_at")
    for job, id_, state, reason, scheduled_for, started_at, finished_at in rows.values_list(*columns):
        took = finished_at - started_at if started_at and finished_at else None
        ended[job].append(Ended(id_, OccurrenceState(state), reason, scheduled_for, took))
    return ended


def _newest(jobs: Sequence[UUID]) -> Q:
    history = Occurrence.objects.filter(job=OuterRef("pk"), finished_at__isnull=False)
    first = history.order_by("-scheduled_for").values("scheduled_for")[MAX_OUTCOMES - 1 : MAX_OUTCOMES]
    starts = Job.objects.filter(pk__in=jobs).order_by().values_list("pk", Subquery(first))
    bounds = [Q(job=job, scheduled_for__gte=start) if start else Q(job=job) for job, start in starts]
    return reduce(or_, bounds, Q(pk__in=[]))


def p95(ended: Sequence[Ended]) -> timedelta | None:
    """Return the 95th percentile of durations, by nearest rank."""
    took = sorted(one.took for one in ended if one.took is not None)
    return took[-(-len(took) * 95 // 100) - 1] if took else None


def outcome_bars(ended: Sequence[Ended]) -> SafeString | str:
    """Draw a bar per occurrence, oldest left; its height is its duration relative to the longest."""
    bars = list(reversed(ended))
    if not bars:
        return NOTHING
    longest = max((one.took for one in bars if one.took), default=timedelta()) or timedelta(seconds=1)
    step, address = 100 / MAX_OUTCOMES, reverse("admin:punctual_occurrence_change", args=[ANY_ID])
    shapes = [_bar(one, address, place * step, step * 0.7, longest) for place, one in enumerate(bars)]
    return format_html(
        '<span class="spark">{}</span>', picture(HEIGHT, shapes, label=describe_outcomes(bars))
    )


def describe_outcomes(ended: Sequence[Ended]) -> str:
    counts = Counter(CHART_WORDS[CHART_LOOK[one.state]] for one in ended)
    return f"last {len(ended)}: " + ", ".join(f"{count} {words}" for words, count in counts.most_common())


def _bar(one: Ended, address: str, x: float, width: float, longest: timedelta) -> SafeString:
    """Draw a bar without format_html, because a list draws a thousand: it contains no user input."""
    height = LOWEST + (HEIGHT - LOWEST) * (one.took / longest if one.took else 0.25)
    took = f", took {format_span(one.took)}" if one.took is not None else ""
    title = f"{one.state.label}, {one.scheduled_for:%Y-%m-%d %H:%M:%S} UTC{took}"
    shape = f'x="{x:.2f}%" width="{width:.2f}%" y="{HEIGHT - height:.1f}" height="{height:.1f}" rx="1.5"'
    bar = f'<rect class="bar {CHART_LOOK[one.state]}" {shape}><title>{title}</title></rect>'
    page = address.replace(str(ANY_ID), str(one.id))
    return mark_safe(f'<a href="{page}" tabindex="-1">{bar}</a>')  # noqa: S308 - see above


def attach_history(jobs: Sequence[Any]) -> None:
    """Add next start, newest outcomes and planning problem to the jobs of a page, in four queries."""
    ids = [job.pk for job in jobs]
    starts, outcomes, problems = next_starts(ids), histories(ids), planning_problems(ids)
    for job in jobs:
        job.next_run_at = starts.get(job.pk)
        job.ended = outcomes.get(job.pk, [])
        job.problem = problems.get(job.pk, "")


def next_starts(jobs: Sequence[UUID]) -> dict[UUID, Any]:
    # A query of its own: as a subquery per job of the list it would read the history of each job.
    pending = Occurrence.objects.filter(job__in=jobs, state=OccurrenceState.PENDING)
    return dict(pending.order_by().values_list("job").annotate(first=Min("run_at")))


def planning_problems(jobs: Sequence[UUID]) -> dict[UUID, str]:
    cursors = Cursor.objects.filter(job__in=jobs).exclude(problem="")
    return dict(cursors.values_list("job", "problem"))
