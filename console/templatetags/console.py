"""Values of the console's templates → what is shown; the same words as in the lists."""

from datetime import datetime, timedelta

from django import template
from django.db.models import Model
from django.utils.safestring import SafeString

from console.overview import Hand, Ticking
from console.workers import Duty, Worker
from jobs.display import NOTHING, instant, link, said_age, said_span, shortened, zone_of
from jobs.display import badge as drawn_badge
from jobs.models import Job
from jobs.secrecy import without_secrets
from occurrences.badges import state_badge
from occurrences.models import Cursor, Occurrence
from occurrences.states import OccurrenceState

register = template.Library()
LONGEST = 60  # characters of a name
DUTIES = {
    Duty.WORKING: ("busy", "play", "It holds runs, and renews its leases."),
    Duty.IDLE: ("good", "ring", "It is on duty and holds nothing."),
    Duty.SILENT: (
        "bad",
        "cross",
        "It did not sign off, and shows no sign of life: what it held is taken back.",
    ),
    Duty.STOPPED: ("calm", "slash", "It signed off; it ran something in the last hour."),
}


@register.filter
def at(value: datetime) -> SafeString | str:
    return instant(value)


@register.filter
def on_clock_of(value: datetime, job: Job) -> SafeString | str:
    return instant(value, zone_of(job))


@register.filter
def since(now: datetime, past: datetime | None) -> str:
    return NOTHING if past is None else said_age(now - past)


@register.filter
def until(future: datetime, now: datetime) -> str:
    return "overdue" if future <= now else said_age(future - now)


@register.filter
def span(value: timedelta) -> str:
    return said_span(value)


@register.filter
def age(value: timedelta) -> str:
    return said_age(value)


@register.filter
def veiled(text: str) -> str:
    return without_secrets(text)


@register.filter
def row_link(row: Model, text: str) -> SafeString:
    return link(row, shortened(text, LONGEST))


@register.filter
def badge(occurrence: Occurrence) -> SafeString:
    return state_badge(OccurrenceState(occurrence.state), occurrence.reason)


@register.filter
def beat_badge(beat: Ticking) -> SafeString:
    if beat.silent:
        return drawn_badge("silent", "bad", "cross", title="It may have been stopped on purpose.")
    return drawn_badge("ticking", "good", "play")


@register.filter
def worker_badge(worker: Worker | Hand, now: datetime) -> SafeString:
    found = worker.duty(now)
    tone, shape, title = DUTIES[found]
    return drawn_badge(found.value, tone, shape, title=title)


@register.filter
def broken_badge(cursor: Cursor) -> SafeString:
    return drawn_badge("not planned", "bad", "alert", title=cursor.problem)
