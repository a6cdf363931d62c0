"""Some jobs → how their newest occurrences ended and how long they took, and that as bars.

Two queries however many jobs and however long their history: where the newest twenty of each begin, then
those rows. A window function would read every row each job ever had.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from uuid import UUID

from django.db.models import OuterRef, Q, Subquery
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from console.activity import LOOK, WORDS
from jobs.display import NOTHING, said_span
from jobs.models import Job
from jobs.svg import picture
from occurrences.models import Occurrence
from occurrences.states import OccurrenceState

SHOWN = 20
HEIGHT, LOWEST = 20.0, 4.0
NOBODY = UUID(int=0)  # stands for any id: looking an address up is dear, a list needs a thousand


@dataclass(frozen=True)
class Ended:
    """One occurrence that is over."""

    id: UUID
    state: OccurrenceState
    reason: str
    scheduled_for: datetime
    took: timedelta | None


def histories(jobs: Sequence[UUID]) -> dict[UUID, list[Ended]]:
    """The newest of each job that are over, newest first."""
    found: dict[UUID, list[Ended]] = defaultdict(list)
    rows = Occurrence.objects.filter(_newest(jobs), finished_at__isnull=False).order_by("-scheduled_for")
    columns = ("job", "id", "state", "reason", "scheduled_for", "started_at", "finished_at")
    for job, id_, state, reason, scheduled_for, started_at, finished_at in rows.values_list(*columns):
        took = finished_at - started_at if started_at and finished_at else None
        found[job].append(Ended(id_, OccurrenceState(state), reason, scheduled_for, took))
    return found


def _newest(jobs: Sequence[UUID]) -> Q:
    history = Occurrence.objects.filter(job=OuterRef("pk"), finished_at__isnull=False)
    first = history.order_by("-scheduled_for").values("scheduled_for")[SHOWN - 1 : SHOWN]
    starts = Job.objects.filter(pk__in=jobs).order_by().values_list("pk", Subquery(first))
    bounds = [Q(job=job, scheduled_for__gte=start) if start else Q(job=job) for job, start in starts]
    return reduce(or_, bounds, Q(pk__in=[]))


def p95(ended: Sequence[Ended]) -> timedelta | None:
    """The time within which 19 of 20 ended, by nearest rank."""
    took = sorted(one.took for one in ended if one.took is not None)
    return took[-(-len(took) * 95 // 100) - 1] if took else None


def outcome_bars(ended: Sequence[Ended]) -> SafeString | str:
    """Oldest left, newest right; as tall as it took, beside the longest of them."""
    shown = list(reversed(ended))
    if not shown:
        return NOTHING
    longest = max((one.took for one in shown if one.took), default=timedelta()) or timedelta(seconds=1)
    step, address = 100 / SHOWN, reverse("admin:occurrences_occurrence_change", args=[NOBODY])
    shapes = [_bar(one, address, place * step, step * 0.7, longest) for place, one in enumerate(shown)]
    return format_html('<span class="spark">{}</span>', picture(HEIGHT, shapes, label=spoken(shown)))


def spoken(ended: Sequence[Ended]) -> str:
    counts = Counter(WORDS[LOOK[one.state]] for one in ended)
    return f"last {len(ended)}: " + ", ".join(f"{count} {words}" for words, count in counts.most_common())


def _bar(one: Ended, address: str, x: float, width: float, longest: timedelta) -> SafeString:
    """Made by hand, for a list draws a thousand: numbers, states and an id, nothing anybody typed."""
    height = LOWEST + (HEIGHT - LOWEST) * (one.took / longest if one.took else 0.25)
    took = f", took {said_span(one.took)}" if one.took is not None else ""
    title = f"{one.state.label}, {one.scheduled_for:%Y-%m-%d %H:%M:%S} UTC{took}"
    shape = f'x="{x:.2f}%" width="{width:.2f}%" y="{HEIGHT - height:.1f}" height="{height:.1f}" rx="1.5"'
    bar = f'<rect class="bar {LOOK[one.state]}" {shape}><title>{title}</title></rect>'
    page = address.replace(str(NOBODY), str(one.id))
    return mark_safe(f'<a href="{page}" tabindex="-1">{bar}</a>')  # noqa: S308 - see above
