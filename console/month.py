"""A job and a month → a calendar: how each day went, what is planned, and where clocks change."""

from calendar import Calendar
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from django.db.models import QuerySet, Sum
from django.db.models.functions import TruncDate
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from console.activity import LOOK, WORDS
from jobs.display import instant, zone_of
from jobs.models import Job
from jobs.timing import timing
from occurrences.models import Occurrence
from occurrences.states import OccurrenceState

MOST_PLANNED = 400
MOST_COUNTED = 50_000  # rows a month; a job that runs every second has millions
DAY = timedelta(days=1)
ORDER = ("bad", "warn", "good", "busy", "none", "planned")
SIGNS = {"bad": "✕", "warn": "!", "good": "✓", "busy": "▶", "none": "–", "planned": "○"}


@dataclass(frozen=True)
class Cell:
    day: date
    inside: bool
    today: bool
    counts: tuple[tuple[str, str, int, str], ...] = ()  # look, sign, how many, in words
    shift: str = ""


@dataclass(frozen=True)
class Days:
    """What is known of the days of a month, on the job's clock."""

    counts: Mapping[tuple[date, str], int] = field(default_factory=dict)
    shifts: Mapping[date, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Counted:
    """(day, look) → instants: a row may stand for many that were missed at once. Where there are too many:
    what ended until `since`, and what is planned after `until`, was not counted."""

    counts: Mapping[tuple[date, str], int]
    since: datetime | None = None
    until: datetime | None = None


def month_asked(text: str, today: date) -> date:
    """`2026-11` → its first day; anything else → this month's."""
    try:
        return datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC).date()
    except ValueError:
        return today.replace(day=1)


def month_panel(job: Job, asked: str, now: datetime) -> SafeString:
    zone: tzinfo = zone_of(job) or UTC
    today = now.astimezone(zone).date()
    first = month_asked(asked, today)
    found = counted(job, first, zone, now)
    days = Days(found.counts, shifts(first, zone))
    context = {
        "until": instant(found.until, zone_of(job)) if found.until else "",
        "planned": MOST_PLANNED,
        "weeks": weeks(first, today, days),
        "first": first,
        "since": instant(found.since, zone_of(job)) if found.since else "",
        "most": MOST_COUNTED,
        "zone": getattr(zone, "key", "UTC"),
        "earlier": f"{first - DAY:%Y-%m}",
        "later": f"{following(first):%Y-%m}",
    }
    return SafeString(render_to_string("console/month.html", context))


def following(first: date) -> date:
    return (first + 31 * DAY).replace(day=1)


def counted(job: Job, first: date, zone: tzinfo, now: datetime) -> Counted:
    start, end = midnight(first, zone), midnight(following(first), zone)
    rows = Occurrence.objects.filter(job=job, scheduled_for__gte=start, scheduled_for__lt=end)
    oldest = rows.order_by("-scheduled_for").values_list("scheduled_for", flat=True)[MOST_COUNTED:].first()
    found = _past(rows if oldest is None else rows.filter(scheduled_for__gt=oldest), zone)
    fires = ahead(job, max(now, start), end)
    for at in fires:
        found[at.astimezone(zone).date(), "planned"] += 1
    return Counted(dict(found), oldest, fires[-1] if len(fires) == MOST_PLANNED else None)


def ahead(job: Job, start: datetime, end: datetime) -> list[datetime]:
    """What the schedule names of the month: all of it, or the first `MOST_PLANNED`."""
    if end <= start or job.removed or not job.enabled:
        return []
    return [fire.instant for fire in timing(job, start, MOST_PLANNED).fires if fire.instant < end]


def _past(rows: QuerySet[Occurrence], zone: tzinfo) -> Counter[tuple[date, str]]:
    by_day = rows.order_by().annotate(day=TruncDate("scheduled_for", tzinfo=zone)).values_list("day", "state")
    found: Counter[tuple[date, str]] = Counter()
    for day, state, instants in by_day.annotate(Sum("instants")):
        look = LOOK[OccurrenceState(state)]
        if look != "planned":  # those come from the schedule, which names them all
            found[day, look] += instants
    return found


def shifts(first: date, zone: tzinfo) -> dict[date, str]:
    """The days on which the zone's clocks change, and how."""
    found = {}
    for number in range((following(first) - first).days):
        day = first + number * DAY
        before, after = (midnight(one, zone).utcoffset() or timedelta() for one in (day, day + DAY))
        if before != after:
            minutes = (after - before) // timedelta(minutes=1)
            found[day] = f"clocks {'+' if minutes > 0 else '−'}{abs(minutes)} min"
    return found


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
    told = tuple((look, SIGNS[look], counts[look], WORDS[look]) for look in ORDER if look in counts)
    return Cell(day, inside, day == today, told if inside else (), shift if inside else "")
