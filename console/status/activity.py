"""Chart of starts per minute by state: 45 minutes back, 15 minutes ahead.

`recorded_starts` and `projected_starts` read the database; everything else is pure.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice

from django.db.models import Count, Max, Q
from django.db.models.functions import TruncMinute
from django.utils.safestring import SafeString

from punctual.console.kit.badges import CHART_LOOK, CHART_LOOKS, CHART_WORDS
from punctual.console.kit.charts import bar, group, label_text, line, picture
from punctual.jobs.job_schedule import schedule_of
from punctual.jobs.models import HELD, Job
from punctual.occurrences.models import Occurrence
from punctual.occurrences.states import OccurrenceState
from punctual.schedules import Schedule

MINUTE = timedelta(minutes=1)
MINUTES_BACK, MINUTES_AHEAD = 45, 15
TOP, FLOOR, HEIGHT = 14.0, 134.0, 152.0
LAST_LABEL = 94  # percent; a label further right would be cut off
MAX_PROJECTED_JOBS = 1000  # with more jobs that start within the chart, only planned rows are drawn
MAX_FIRES = 1000  # of one job; one a second fits
Counts = Mapping[tuple[datetime, str], int]


def recorded_starts(now: datetime) -> dict[tuple[datetime, str], int]:
    """Count occurrences by look and by the minute they started; those that have not, by their start time."""
    start, end = window(now)
    started = Occurrence.objects.filter(started_at__gte=start, started_at__lt=end)
    others = Occurrence.objects.filter(started_at=None, scheduled_for__gte=start, scheduled_for__lt=end)
    counts: Counter[tuple[datetime, str]] = Counter()
    for rows, column in ((started, "started_at"), (others, "run_at")):
        by_minute = rows.order_by().annotate(minute=TruncMinute(column)).values_list("minute", "state")
        for minute, state, count in by_minute.annotate(Count("pk")):
            counts[minute, CHART_LOOK[OccurrenceState(state)]] += count
    return dict(counts)


def projected_starts(now: datetime) -> dict[tuple[datetime, str], int]:
    """Count starts that schedules name beyond the planned rows: planning is only a row or a minute ahead."""
    _, end = window(now)
    # The next instant of every job is a row: if that is beyond the chart, so are all others.
    near = Q(cursor__planned_until=None) | Q(cursor__planned_until__lt=end)
    planned_jobs = Job.objects.active().exclude(HELD).exclude(origin="polling").filter(near)
    jobs = list(planned_jobs[: MAX_PROJECTED_JOBS + 1])
    if len(jobs) > MAX_PROJECTED_JOBS:
        return {}
    pending = Occurrence.objects.filter(state=OccurrenceState.PENDING, job__in=jobs).order_by()
    rows_until = dict(pending.values_list("job").annotate(Max("scheduled_for")))
    schedules = [
        (schedule, max(now, rows_until.get(job.pk, now))) for job in jobs if (schedule := _schedule(job))
    ]
    # Jobs with the same text share their schedule.
    distinct = {(id(schedule), after): (schedule, after) for schedule, after in schedules}
    fires = {key: _fires_by_minute(*item, end) for key, item in distinct.items()}
    counts: Counter[tuple[datetime, str]] = Counter()
    for schedule, after in schedules:
        for minute, number in fires[id(schedule), after].items():
            counts[minute, "planned"] += number
    return dict(counts)


def _schedule(job: Job) -> Schedule | None:
    try:
        return schedule_of(job)
    except Exception:  # noqa: BLE001 - raw SQL can store any text, and a custom kind is user code
        return None


def _fires_by_minute(schedule: Schedule, after: datetime, end: datetime) -> Mapping[datetime, int]:
    fires: Counter[datetime] = Counter()
    with suppress(Exception):  # of a custom kind; what it named before is drawn
        for instant in islice(schedule.between(after, end), MAX_FIRES):
            if instant < end:
                fires[instant.replace(second=0, microsecond=0)] += 1
    return fires


def add_counts(one: Counts, other: Counts) -> Counts:
    return Counter(one) + Counter(other)


def window(now: datetime) -> tuple[datetime, datetime]:
    minute = now.replace(second=0, microsecond=0)
    return minute - (MINUTES_BACK - 1) * MINUTE, minute + (MINUTES_AHEAD + 1) * MINUTE


def draw_chart(counts: Counts, now: datetime) -> SafeString:
    start, end = window(now)
    minutes = [start + number * MINUTE for number in range((end - start) // MINUTE)]
    totals = {minute: sum(counts.get((minute, look), 0) for look in CHART_LOOKS) for minute in minutes}
    highest = max([*totals.values(), 4])
    step = 100 / len(minutes)
    shapes = [*_axis(highest)]
    for number, minute in enumerate(minutes):
        if minute.minute % 15 == 0 and number * step < LAST_LABEL:
            shapes.append(label_text(f"{minute:%H:%M}", number * step, HEIGHT - 2))
        if totals[minute]:
            shapes.append(_column(counts, minute, number * step, step * 0.72, highest))
    place = (now - start) / (end - start) * 100
    shapes += [line("now", place, 0, place, FLOOR), label_text("now", place + 0.6, 9, look="strong")]
    return picture(HEIGHT, shapes, label=describe_counts(counts, now))


def describe_counts(counts: Counts, now: datetime) -> str:
    totals: Counter[str] = Counter()
    for (_, look), count in counts.items():
        totals[look] += count
    parts = [f"{totals[look]} {words}" for look, words in CHART_WORDS.items() if totals[look]]
    summary = ", ".join(parts) or "nothing"
    return f"Starts per minute from {window(now)[0]:%H:%M} to {window(now)[1]:%H:%M} UTC: {summary}."


def _axis(highest: int) -> list[SafeString]:
    return [
        line("axis", 0, FLOOR, 100, FLOOR),
        line("axis", 0, TOP, 100, TOP),
        label_text(str(highest), 100, TOP - 3, anchor="end"),
    ]


def _column(counts: Counts, minute: datetime, x: float, width: float, highest: int) -> SafeString:
    shapes, y, words = [], FLOOR, []
    for look in CHART_LOOKS:
        count = counts.get((minute, look), 0)
        if count:
            height = max(2.0, count / highest * (FLOOR - TOP))
            y -= height
            shapes.append(bar(look, x, width, y=y, height=height))
            words.append(f"{count} {CHART_WORDS[look]}")
    return group(f"{minute:%H:%M} UTC: {', '.join(reversed(words))}", *shapes)
