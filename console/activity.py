"""Starts per minute and state → their chart, with what is planned ahead of now.

`read` and `projected` ask the database; everything else is pure.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db.models import Count, Max
from django.db.models.functions import TruncMinute
from django.utils.safestring import SafeString

from jobs.models import Job
from jobs.svg import bar, grouped, line, picture, word
from jobs.timing import timing
from occurrences.models import Occurrence
from occurrences.states import OccurrenceState

MINUTE = timedelta(minutes=1)
BEHIND, AHEAD = 45, 15  # minutes
TOP, FLOOR, HEIGHT = 14.0, 134.0, 152.0
LAST_LABEL = 94  # percent; further right it would be cut off
MOST_PROJECTED = 60  # jobs whose schedules are asked; of a larger fleet only planned rows are shown
MOST_FIRES = 100  # of one job
Counts = Mapping[tuple[datetime, str], int]

S = OccurrenceState
# Drawn from the floor up; what failed stands out on top.
LOOKS: Mapping[str, tuple[OccurrenceState, ...]] = {
    "none": (S.SKIPPED, S.MISSED, S.CANCELED),
    "planned": (S.PENDING, S.QUEUED),
    "busy": (S.DISPATCHED, S.RUNNING),
    "good": (S.COMPLETED,),
    "warn": (S.COMPLETED_WITH_ERRORS,),
    "bad": (S.FAILED, S.FAILED_STALE),
}
LOOK = {state: look for look, states in LOOKS.items() for state in states}
WORDS = {
    "good": "completed",
    "warn": "completed with errors",
    "bad": "failed",
    "busy": "under way",
    "planned": "planned",
    "none": "not run",
}


def read(now: datetime) -> dict[tuple[datetime, str], int]:
    """(minute, look) → how many. By the minute an occurrence is for; the index on it bounds the work."""
    start, end = window(now)
    rows = Occurrence.objects.filter(scheduled_for__gte=start, scheduled_for__lt=end).order_by()
    found: Counter[tuple[datetime, str]] = Counter()
    by_minute = rows.annotate(minute=TruncMinute("scheduled_for")).values_list("minute", "state")
    for minute, state, count in by_minute.annotate(Count("pk")):
        found[minute, LOOK[OccurrenceState(state)]] += count
    return dict(found)


def projected(now: datetime) -> dict[tuple[datetime, str], int]:
    """Starts that schedules name beyond the rows: planning keeps a row or a minute ahead, no more."""
    jobs = list(Job.objects.active().filter(paused_at=None).exclude(origin="polling")[: MOST_PROJECTED + 1])
    if len(jobs) > MOST_PROJECTED:
        return {}
    pending = Occurrence.objects.filter(state=OccurrenceState.PENDING, job__in=jobs).order_by()
    rows_until = dict(pending.values_list("job").annotate(Max("scheduled_for")))
    _, end = window(now)
    found: Counter[tuple[datetime, str]] = Counter()
    for job in jobs:
        for fire in timing(job, max(now, rows_until.get(job.pk, now)), MOST_FIRES).fires:
            if fire.instant < end:
                found[fire.instant.replace(second=0, microsecond=0), "planned"] += 1
    return dict(found)


def added(one: Counts, other: Counts) -> Counts:
    return Counter(one) + Counter(other)


def window(now: datetime) -> tuple[datetime, datetime]:
    minute = now.replace(second=0, microsecond=0)
    return minute - (BEHIND - 1) * MINUTE, minute + (AHEAD + 1) * MINUTE


def chart(counts: Counts, now: datetime) -> SafeString:
    start, end = window(now)
    minutes = [start + number * MINUTE for number in range((end - start) // MINUTE)]
    totals = {minute: sum(counts.get((minute, look), 0) for look in LOOKS) for minute in minutes}
    most = max([*totals.values(), 4])
    step = 100 / len(minutes)
    shapes = [*_axis(most)]
    for number, minute in enumerate(minutes):
        if minute.minute % 15 == 0 and number * step < LAST_LABEL:
            shapes.append(word(f"{minute:%H:%M}", number * step, HEIGHT - 2))
        if totals[minute]:
            shapes.append(_column(counts, minute, number * step, step * 0.72, most))
    place = (now - start) / (end - start) * 100
    shapes += [line("now", place, 0, place, FLOOR), word("now", place + 0.6, 9, look="strong")]
    return picture(HEIGHT, shapes, label=spoken(counts, now))


def spoken(counts: Counts, now: datetime) -> str:
    said: Counter[str] = Counter()
    for (_, look), count in counts.items():
        said[look] += count
    parts = [f"{said[look]} {words}" for look, words in WORDS.items() if said[look]]
    listed = ", ".join(parts) or "nothing"
    return f"Starts per minute from {window(now)[0]:%H:%M} to {window(now)[1]:%H:%M} UTC: {listed}."


def _axis(most: int) -> list[SafeString]:
    return [
        line("axis", 0, FLOOR, 100, FLOOR),
        line("axis", 0, TOP, 100, TOP),
        word(str(most), 100, TOP - 3, anchor="end"),
    ]


def _column(counts: Counts, minute: datetime, x: float, width: float, most: int) -> SafeString:
    shapes, y, said = [], FLOOR, []
    for look in LOOKS:
        count = counts.get((minute, look), 0)
        if count:
            height = max(2.0, count / most * (FLOOR - TOP))
            y -= height
            shapes.append(bar(look, x, width, y=y, height=height))
            said.append(f"{count} {WORDS[look]}")
    return grouped(f"{minute:%H:%M} UTC: {', '.join(reversed(said))}", *shapes)
