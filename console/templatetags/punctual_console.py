"""Template filters: values in the same form as in the lists."""

from datetime import datetime, timedelta

from django import template
from django.db.models import Model
from django.utils.safestring import SafeString

from punctual.console.kit.badges import state_badge
from punctual.console.kit.display import NOTHING, format_age, format_span, instant, link, shorten, zone_of
from punctual.console.kit.display import badge as make_badge
from punctual.console.status.overview import BeatStatus, WorkerSummary
from punctual.console.status.workers import Duty, Worker
from punctual.jobs.models import Job
from punctual.jobs.redaction import redact_text
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.states import OccurrenceState

register = template.Library()
MAX_NAME_TEXT = 60
DUTIES = {
    Duty.WORKING: ("busy", "play", "It holds runs, and renews its leases."),
    Duty.IDLE: ("good", "ring", "It is present and holds nothing."),
    Duty.SILENT: (
        "bad",
        "cross",
        "It did not sign off and shows no sign of life: the sweeper takes its runs back.",
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
    return NOTHING if past is None else format_age(now - past)


@register.filter
def until(future: datetime, now: datetime) -> str:
    return "overdue" if future <= now else format_age(future - now)


@register.filter
def span(value: timedelta) -> str:
    return format_span(value)


@register.filter
def age(value: timedelta) -> str:
    return format_age(value)


@register.filter
def redacted(text: str) -> str:
    return redact_text(text)


@register.filter
def row_link(row: Model, text: str) -> SafeString:
    return link(row, shorten(text, MAX_NAME_TEXT))


@register.filter
def badge(occurrence: Occurrence) -> SafeString:
    return state_badge(OccurrenceState(occurrence.state), occurrence.reason)


@register.filter
def beat_badge(beat: BeatStatus) -> SafeString:
    if beat.silent:
        return make_badge("silent", "bad", "cross", title="It may have been stopped on purpose.")
    return make_badge("ticking", "good", "play")


@register.filter
def worker_badge(worker: Worker | WorkerSummary, now: datetime) -> SafeString:
    duty = worker.duty(now)
    tone, shape, title = DUTIES[duty]
    return make_badge(duty.value, tone, shape, title=title)


@register.filter
def unplannable_badge(cursor: Cursor) -> SafeString:
    return make_badge("not planned", "bad", "alert", title=cursor.problem)
