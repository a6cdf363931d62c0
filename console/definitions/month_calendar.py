"""Calendar of a job: how each day of a month went, what is planned, and where clocks change."""

from calendar import Calendar
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from django.db.models import QuerySet, Sum
from django.db.models.functions import TruncDate
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from punctual.console.kit.badges import CHART_LOOK, CHART_WORDS
from punctual.console.kit.display import instant, zone_of
from punctual.jobs.job_schedule import schedule_summary
from punctual.jobs.models import Job
from punctual.occurrences.models import Occurrence
from punctual.occurrences.states import OccurrenceState

MAX_PLANNED = 400
MAX_COUNTED = 50_000  # rows per month; a job that runs every second has millions
DAY = timedelta(days=1)
ORDER = ("bad", "warn", "good", "busy", "none", "planned")
SIGNS = {"bad": "✕", "warn": "!", "good": "✓", "busy": "▶", "none": "–", "planned": "○"}


@dataclass(frozen=True)
class Cell:
    day: date
    inside: bool
    today: bool
    counts: tuple[tuple[str, str, int, str], ...] = ()  # look, sign, count, words
    shift: str = ""


@dataclass(frozen=True)
class Days:
    """Counts and clock changes by day, on the clock of the job."""

    counts: Mapping[tuple[date, str], int] = field(default_factory=dict)
    shifts: Mapping[date, str] = field(default_factory=dict)


@dataclass(frozen=True)
class InstantCounts:
    """Instants by day and look; one row may stand for many missed instants.

    If there are too many, instants up to `since` and planned ones after `until` are not counted.
    """

    counts: Mapping[tuple[date, str], int]
    since: datetime | None = None
    until: datetime | None = None


def parse_month(text: str, today: date) -> date:
    """Return the first day of `2026-11`; of the current month if the text is no month."""
    try:
        return datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC).date()
    except ValueError:
        return today.replace(day=1)


def month_panel(job: Job, month: str, now: datetime) -> SafeString:
    zone: tzinfo = zone_of(job) or UTC
    today = now.astimezone(zone).date()
    first = parse_month(month, today)
    counts = count_instants(job, first, zone, now)
    days = Days(counts.counts, clock_changes(first, zone))
    context = {
        "until": instant(counts.until, zone_of(job)) if counts.until else "",
        "planned": MAX_PLANNED,
        "weeks": weeks(first, today, days),
        "first": first,
        "since": instant(counts.since, zone_of(job)) if counts.since else "",
        "most": MAX_COUNTED,
        "zone": getattr(zone, "key", "UTC"),
        "earlier": f"{first - DAY:%Y-%m}",
        "later": f"{next_month(first):%Y-%m}",
    }
    return SafeString(render_to_string("punctual_console/definitions/month_calendar.html", context))


def next_month(first: date) -> date:
    return (first + 31 * DAY).replace(day=1)


def count_instants(job: Job, first: date, zone: tzinfo, now: datetime) -> InstantCounts:
    start, end = midnight(first, zone), midnight(next_month(first), zone)
    rows = Occurrence.objects.filter(job=job, scheduled_for__gte=start, scheduled_for__lt=end)
    oldest = rows.order_by("-scheduled_for").values_list("scheduled_for", flat=True)[MAX_COUNTED:].first()
    counts = _past(rows if oldest is None else rows.filter(scheduled_for__gt=oldest), zone)
    fires = planned_instants(job, max(now, start), end)
    for at in fires:
        counts[at.astimezone(zone).date(), "planned"] += 1
    return InstantCounts(dict(counts), oldest, fires[-1] if len(fires) == MAX_PLANNED else None)


def planned_instants(job: Job, start: datetime, end: datetime) -> list[datetime]:
    """Return the instants of the schedule in the month, at most `MAX_PLANNED`."""
    if end <= start or job.removed or not job.enabled:
        return []
    return [fire.instant for fire in schedule_summary(job, start, MAX_PLANNED).fires if fire.instant < end]


def _past(rows: QuerySet[Occurrence], zone: tzinfo) -> Counter[tuple[date, str]]:
    by_day = rows.order_by().annotate(day=TruncDate("scheduled_for", tzinfo=zone)).values_list("day", "state")
    counts: Counter[tuple[date, str]] = Counter()
    for day, state, instants in by_day.annotate(Sum("instants")):
        look = CHART_LOOK[OccurrenceState(state)]
        if look != "planned":  # counted from the schedule instead
            counts[day, look] += instants
    return counts


def clock_changes(first: date, zone: tzinfo) -> dict[date, str]:
    """Return the days on which the clocks of the zone change, and by how much."""
    changes = {}
    for number in range((next_month(first) - first).days):
        day = first + number * DAY
        before, after = (midnight(one, zone).utcoffset() or timedelta() for one in (day, day + DAY))
        if before != after:
            minutes = (after - before) // timedelta(minutes=1)
            changes[day] = f"clocks {'+' if minutes > 0 else '−'}{abs(minutes)} min"
    return changes


def midnight(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time(), zone)


def weeks(first: date, today: date, days: Days) -> list[list[Cell]]:
    by_day: dict[date, dict[str, int]] = defaultdict(dict)
    for (day, look), count in days.counts.items():
        by_day[day][look] = count
    return [
        [_cell(day, first, today, by_day[day], days.shifts.get(day, "")) for day in week]
        for week in Calendar().monthdatescalendar(first.year, first.month)
    ]


def _cell(day: date, first: date, today: date, counts: Mapping[str, int], shift: str) -> Cell:
    inside = day.month == first.month
    cell_counts = tuple(
        (look, SIGNS[look], counts[look], CHART_WORDS[look]) for look in ORDER if look in counts
    )
    return Cell(day, inside, day == today, cell_counts if inside else (), shift if inside else "")
