"""Timeline: one lane per job with what ran, what runs and what is planned."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber
from django.urls import reverse
from django.utils.safestring import SafeString

from punctual.console.kit.badges import CHART_LOOK
from punctual.console.kit.charts import bar, dot, label_text, line, link_shapes, picture
from punctual.console.kit.display import format_span
from punctual.jobs.job_schedule import schedule_summary
from punctual.jobs.models import Job
from punctual.occurrences.models import Occurrence
from punctual.occurrences.states import OccurrenceState

SPANS = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
LANES_PER_PAGE = 30
MAX_MARKS = 250  # per lane; more cannot be told apart
MAX_PLANNED = 40
AHEAD_SHARE = 0.25  # part of the span that lies in the future
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
STEPS = (MINUTE, 3 * MINUTE, 10 * MINUTE, 60 * MINUTE, 240 * MINUTE, DAY, 2 * DAY)  # between two ticks
MAX_TICKS = 7
LEFTMOST, RIGHTMOST, CLEAR = 3, 97, 5  # percent: distance of labels from the edges and from "now"
CROWDED = 16  # percent: nearer to "now" a narrow screen has no room for a label
EDGE = 10  # percent: nearer to an edge a narrow screen cuts the label off
LANE, MIDDLE = 26.0, 13.0
AXIS = 22.0


@dataclass(frozen=True)
class View:
    """The time shown: from `start` to `end`, with `now` in between."""

    start: datetime
    now: datetime
    end: datetime

    @classmethod
    def around(cls, now: datetime, span: timedelta) -> "View":
        return cls(now - span * (1 - AHEAD_SHARE), now, now + span * AHEAD_SHARE)

    def place(self, at: datetime) -> float:
        return max(0.0, min(100.0, (at - self.start) / (self.end - self.start) * 100))


@dataclass(frozen=True)
class Mark:
    look: str
    start: datetime
    end: datetime | None = None
    title: str = ""
    url: str = ""


@dataclass(frozen=True)
class Lane:
    job: Job
    drawing: SafeString


def lanes(jobs: Sequence[Job], view: View) -> list[Lane]:
    past = recorded_marks([job.pk for job in jobs], view)
    return [Lane(job, draw_lane([*past[job.pk], *planned_marks(job, view)], view, job.name)) for job in jobs]


def recorded_marks(jobs: Sequence[UUID], view: View) -> dict[UUID, list[Mark]]:
    """Read the newest occurrences of all lanes in one query."""
    rank = Window(RowNumber(), partition_by="job", order_by=F("scheduled_for").desc())
    inside = Q(scheduled_for__gte=view.start, scheduled_for__lt=view.end)
    rows = Occurrence.objects.filter(inside, job__in=jobs).annotate(rank=rank).filter(rank__lte=MAX_MARKS)
    marks: dict[UUID, list[Mark]] = defaultdict(list)
    for row in rows.only("job_id", "state", "scheduled_for", "run_at", "started_at", "finished_at"):
        marks[row.job_id].append(make_mark(row, view.now))
    return marks


def make_mark(row: Any, now: datetime) -> Mark:
    look = CHART_LOOK[OccurrenceState(row.state)]
    begun = row.started_at or row.run_at
    end = row.finished_at or (now if look == "busy" else None)
    took = f", took {format_span(end - begun)}" if end and row.started_at else ""
    label = f"{OccurrenceState(row.state).label}, {row.scheduled_for:%Y-%m-%d %H:%M:%S} UTC{took}"
    ran = row.started_at is not None
    url = reverse("admin:punctual_occurrence_change", args=[row.pk])
    return Mark(look, begun, end if ran else None, label, url)


def planned_marks(job: Job, view: View) -> list[Mark]:
    """Mark instants of the schedule in the future, beyond the rows planned so far."""
    if job.removed or not job.enabled or job.paused or job.suspended:
        return []
    fires = schedule_summary(job, view.now, MAX_PLANNED).fires
    ahead = [fire.instant for fire in fires if fire.instant < view.end]
    return [Mark("planned", at, None, f"planned for {at:%Y-%m-%d %H:%M:%S} UTC") for at in ahead]


def draw_lane(marks: Iterable[Mark], view: View, name: str) -> SafeString:
    ordered = sorted(marks, key=lambda mark: mark.start)
    shapes = [line("now", view.place(view.now), 0, view.place(view.now), LANE)]
    shapes += [_shape(mark, view) for mark in ordered]
    failed = sum(mark.look == "bad" for mark in ordered)
    label = f"{name}: {len(ordered)} occurrences in view, {failed} failed"
    return picture(LANE, shapes, label=label)


def draw_axis(view: View) -> SafeString:
    step = next(one for one in STEPS if (view.end - view.start) / one <= MAX_TICKS)
    pattern = "%d %b" if step >= DAY else "%H:%M"
    now = view.place(view.now)
    shapes = [
        label_text(
            f"{at:{pattern}}",
            view.place(at),
            AXIS - 8,
            anchor="middle",
            look=_look(view.place(at), now, number),
        )
        for number, at in enumerate(ticks(view, step))
        if LEFTMOST < view.place(at) < RIGHTMOST and abs(view.place(at) - now) > CLEAR
    ]
    shapes.append(label_text("now", now, AXIS - 8, anchor="middle", look="strong"))
    return picture(AXIS, shapes, label=f"from {view.start:%Y-%m-%d %H:%M} to {view.end:%Y-%m-%d %H:%M} UTC")


def _look(place: float, now: float, number: int) -> str:
    """Return "minor" for labels that a narrow screen leaves out."""
    cut = not EDGE < place < 100 - EDGE
    return "minor" if number % 3 or abs(place - now) < CROWDED or cut else ""


def ticks(view: View, step: timedelta) -> Iterable[datetime]:
    """Yield round times: whole minutes, hours or days."""
    midnight = view.start.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight + ((view.start - midnight) // step + 1) * step
    while at < view.end:
        yield at
        at += step


def _shape(mark: Mark, view: View) -> SafeString:
    x = view.place(mark.start)
    if mark.look == "planned" or mark.end is None:
        shape = dot(mark.look, x, MIDDLE, radius=3.5, title=mark.title)
    else:
        tall = 16.0 if mark.look == "bad" else 12.0
        width = max(view.place(mark.end) - x, 0.35)
        shape = bar(mark.look, x, width, y=MIDDLE - tall / 2, height=tall, title=mark.title)
    return link_shapes(mark.url, shape) if mark.url else shape
