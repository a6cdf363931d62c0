"""Format values as escaped HTML: badges, links, instants, spans, documents, tables."""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from unicodedata import bidirectional
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Model
from django.urls import get_script_prefix, reverse
from django.utils.html import escape, format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator

from punctual.jobs.config.cascade import platform
from punctual.jobs.models import Job
from punctual.jobs.redaction import redact_document, redact_text

NOTHING = "–"
MAX_LIST_TEXT = 40
MIN_BREAKABLE = 20  # characters; a text of this length may be broken anywhere on a narrow screen
ID_DIGITS = 8
ISOLATE, END_ISOLATE = "\u2068", "\u2069"
MIN_HOURS_AS_DAYS = 48
ANY_ID = UUID(int=0)  # placeholder in a cached URL
ZONE_PREFIX = re.compile(r"\s*(?:chronex:\s*)?(?:CRON_)?TZ=(\S+)")

# One reader in twelve cannot tell the colours apart: each tone comes with a shape and a word.
SHAPES = {
    "ring": '<circle cx="5" cy="5" r="3.5"/>',
    "dot": '<circle cx="5" cy="5" r="3.5" fill="currentColor"/>',
    "half": '<circle cx="5" cy="5" r="3.5"/><path d="M5 2a3 3 0 0 1 0 6" fill="currentColor"/>',
    "play": '<path d="M2.5 1.5 8.5 5l-6 3.5z" fill="currentColor"/>',
    "check": '<path d="m1.5 5.5 2.5 2.5 4.5-6"/>',
    "cross": '<path d="m2 2 6 6m0-6-6 6"/>',
    "alert": '<path d="M5 1v5" stroke-width="2"/><circle cx="5" cy="8.6" r=".6" fill="currentColor"/>',
    "square": '<path d="M2 2h6v6H2z" fill="currentColor"/>',
    "bars": '<path d="M3.2 1.5v7m3.6-7v7" stroke-width="2"/>',
    "slash": '<circle cx="5" cy="5" r="3.5"/><path d="m2.5 7.5 5-5"/>',
    "skip": '<path d="m2 2 3 3-3 3m3-6 3 3-3 3"/>',
    "turn": '<path d="M8 3.5A3.5 3.5 0 1 0 8.5 6M8.2 1v2.7H5.5"/>',
}


@dataclass(frozen=True)
class Section:
    """A table below the fields of a row with a link to the whole list, or a drawing instead of a table."""

    title: str
    headers: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    more: str = ""
    content: SafeString | str = ""
    empty: str = "Nothing yet."
    fold: str = ""  # if set: the summary line; the section starts folded

    @property
    def labeled(self) -> list[list[tuple[str, object]]]:
        """Pair each cell with its header: on a narrow screen a row is shown as a card."""
        return [list(zip(self.headers, row, strict=True)) for row in self.rows]


@lru_cache(maxsize=1024)  # a list repeats the same few badges hundreds of times
def badge(word: str, tone: str, shape: str, *, title: str = "") -> SafeString:
    return format_html(
        '<span class="badge {}" title="{}">'
        '<svg width="10" height="10" viewBox="0 0 10 10" fill="none" stroke="currentColor" '
        'stroke-width="1.5" aria-hidden="true" data-shape="{}">{}</svg>{}</span>',
        tone,
        redact_text(title),
        shape,
        mark_safe(SHAPES[shape]),  # noqa: S308 - a constant of this module
        word,
    )


def shorten(text: str, length: int = MAX_LIST_TEXT) -> SafeString:
    """Shorten a text to fit a column; show all of it on hover."""
    if not text:
        return SafeString(NOTHING)
    text = redact_text(text)
    classes = "text long" if len(text) > MIN_BREAKABLE else "text"
    start = Truncator(text).chars(length)
    return format_html('<span class="{}" dir="auto" title="{}">{}</span>', classes, text, start)


def isolate_rtl(name: str) -> str:
    """Isolate a right-to-left name, so that it does not reorder the text after it."""
    is_rtl = any(bidirectional(letter) in {"R", "AL"} for letter in name)
    return f"{ISOLATE}{name}{END_ISOLATE}" if is_rtl else name


def short_id(display_id: str) -> SafeString:
    kind, _, digits = display_id.partition("_")
    return format_html(
        '<code class="line" title="{}">{}_{}</code>',
        display_id,
        kind,
        digits[:ID_DIGITS],
    )


def link(row: Model, text: object) -> SafeString:
    return anchor(page_url(row), text)


def page_url(row: Model) -> str:
    """Return the URL of a row's page. It is reversed once per model: a list needs hundreds."""
    model = row._meta.label_lower.replace(".", "_")
    if isinstance(row.pk, UUID):
        return _page_of_any(model, get_script_prefix()).replace(str(ANY_ID), str(row.pk))
    return reverse(f"admin:{model}_change", args=[row.pk])


@lru_cache(maxsize=64)
def _page_of_any(model: str, _prefix: str) -> str:
    return reverse(f"admin:{model}_change", args=[ANY_ID])


def anchor(url: str, text: object) -> SafeString:
    return format_html(
        '<a class="way" href="{}">{}</a>',
        url,
        text,
    )


def list_url(model: str, **lookups: str | UUID) -> str:
    """Return the URL of the list of `app_model`, filtered by `lookups`."""
    query = urlencode({key: str(value) for key, value in lookups.items()})
    return f"{reverse(f'admin:{model}_changelist')}?{query}"


def instant(value: datetime | None, zone: ZoneInfo | None = None) -> SafeString | str:
    """Show an instant on the clock of the job, UTC on hover; without a zone, in UTC."""
    if value is None:
        return NOTHING
    utc = value.astimezone(UTC)
    at, name = (value.astimezone(zone), escape(zone.key)) if zone else (utc, "UTC")
    # Without format_html: digits and an escaped zone name; this is the most frequent cell of every list.
    return mark_safe(  # noqa: S308
        f'<time datetime="{utc.isoformat()}" title="{_clock(utc, exact=True)} UTC">{_clock(at)} {name}</time>'
    )


def both_clocks(value: datetime | None, zone: ZoneInfo | None = None) -> SafeString | str:
    """Show an instant on the clock of the job, and in UTC below it if that differs."""
    if value is None or zone is None or zone.key == "UTC":
        return instant(value)
    utc = _clock(value.astimezone(UTC))
    return format_html('{}<span class="block text-subtle text-xs">{} UTC</span>', instant(value, zone), utc)


def _clock(value: datetime, *, exact: bool = False) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}" + (f".{value:%f}"[:4] if exact and value.microsecond else "")


def span(value: timedelta | None) -> SafeString | str:
    return NOTHING if value is None else format_html('<span class="line">{}</span>', format_span(value))


def format_span(value: timedelta) -> str:
    seconds = value.total_seconds()
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= MIN_HOURS_AS_DAYS:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def format_age(value: timedelta) -> str:
    """Format how long ago or ahead something is, in whole seconds."""
    whole = timedelta(seconds=round(max(value, timedelta()).total_seconds()))
    return format_span(whole) if whole else "0 s"


def full_id(display_id: str) -> SafeString:
    """Show a whole id on one line, for copying."""
    return format_html('<span class="ident">{}</span>', display_id)


def document(value: Any, *, secret: Collection[str] = ()) -> SafeString | str:
    """Show JSON indented; values of the names in `secret` are redacted."""
    if value in (None, {}, []):
        return NOTHING
    text = json.dumps(redact_document(value, also=secret), indent=2, ensure_ascii=False, sort_keys=True)
    return preformat(text)


def preformat(text: str) -> SafeString | str:
    if not text:
        return NOTHING
    return format_html('<pre class="output">{}</pre>', redact_text(text))


def fold(summary: str, content: SafeString | str) -> SafeString | str:
    """Hide content behind a summary line; nothing stays nothing."""
    if content == NOTHING:
        return NOTHING
    return format_html('<details class="fold"><summary>{}</summary>{}</details>', summary, content)


def zone_of(job: Job) -> ZoneInfo | None:
    """Return the zone of a job: named by its schedule, its configuration or the platform, in this order."""
    prefix = ZONE_PREFIX.match(job.schedule)
    try:
        name = prefix[1] if prefix else (platform() | job.config).get("timezone")
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, KeyError, TypeError):
        return None  # raw SQL may have written anything; the page must still be shown
