"""Values → what the operator reads: badges, links, instants, spans, tables; all of it escaped."""

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

from jobs.models import Job
from jobs.scheduling import platform
from jobs.secrecy import cleansed, without_secrets

NOTHING = "–"
LONGEST_IN_A_LIST = 40
BREAKS_FROM = 20  # characters; where room is scarce such a text is broken anywhere
ID_DIGITS = 8
ISOLATE, END_ISOLATE = "\u2068", "\u2069"
LONG = 48  # hours; from there on days are counted
ANY = UUID(int=0)  # stands for an id in an address
ZONE_PREFIX = re.compile(r"\s*(?:chronex:\s*)?(?:CRON_)?TZ=(\S+)")

# Colour alone tells nothing to one reader in twelve: each tone comes with a shape and a word.
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
    """A table below a row's fields, and the way to the whole list; or a drawing instead of a table."""

    title: str
    headers: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    more: str = ""
    content: SafeString | str = ""
    empty: str = "Nothing yet."
    fold: str = ""  # the line that unfolds it

    @property
    def labeled(self) -> list[list[tuple[str, object]]]:
        """Each cell with its header: on a narrow screen a row is a card."""
        return [list(zip(self.headers, row, strict=True)) for row in self.rows]


@lru_cache(maxsize=1024)  # a list shows the same few hundreds of times
def badge(word: str, tone: str, shape: str, *, title: str = "") -> SafeString:
    return format_html(
        '<span class="badge {}" title="{}">'
        '<svg width="10" height="10" viewBox="0 0 10 10" fill="none" stroke="currentColor" '
        'stroke-width="1.5" aria-hidden="true" data-shape="{}">{}</svg>{}</span>',
        tone,
        without_secrets(title),
        shape,
        mark_safe(SHAPES[shape]),  # noqa: S308 - a constant of this module
        word,
    )


def shortened(text: str, length: int = LONGEST_IN_A_LIST) -> SafeString:
    """Text that fits a column; the whole of it on hover."""
    if not text:
        return SafeString(NOTHING)
    text = without_secrets(text)
    looks = "text long" if len(text) > BREAKS_FROM else "text"
    shown = Truncator(text).chars(length)
    return format_html('<span class="{}" dir="auto" title="{}">{}</span>', looks, text, shown)


def apart(name: str) -> str:
    """A name that is written from right to left does not turn round the numbers after it."""
    turns = any(bidirectional(letter) in {"R", "AL"} for letter in name)
    return f"{ISOLATE}{name}{END_ISOLATE}" if turns else name


def short_id(shown_id: str) -> SafeString:
    kind, _, digits = shown_id.partition("_")
    return format_html(
        '<code class="line" title="{}">{}_{}</code>',
        shown_id,
        kind,
        digits[:ID_DIGITS],
    )


def link(row: Model, text: object) -> SafeString:
    return anchor(page_url(row), text)


def page_url(row: Model) -> str:
    """The address of a row's page. Looked up once per kind: a list asks for hundreds."""
    model = row._meta.label_lower.replace(".", "_")
    if isinstance(row.pk, UUID):
        return _page_of_any(model, get_script_prefix()).replace(str(ANY), str(row.pk))
    return reverse(f"admin:{model}_change", args=[row.pk])


@lru_cache(maxsize=64)
def _page_of_any(model: str, _prefix: str) -> str:
    return reverse(f"admin:{model}_change", args=[ANY])


def anchor(url: str, text: object) -> SafeString:
    return format_html(
        '<a class="way" href="{}">{}</a>',
        url,
        text,
    )


def list_url(model: str, **lookups: str | UUID) -> str:
    """The list of `app_model`, narrowed: packages point at each other's pages by address."""
    query = urlencode({key: str(value) for key, value in lookups.items()})
    return f"{reverse(f'admin:{model}_changelist')}?{query}"


def instant(value: datetime | None, zone: ZoneInfo | None = None) -> SafeString | str:
    """On the job's own clock, UTC on hover; where it names no zone, UTC."""
    if value is None:
        return NOTHING
    utc = value.astimezone(UTC)
    at, name = (value.astimezone(zone), escape(zone.key)) if zone else (utc, "UTC")
    # By hand: digits and the name of a zone, and the dearest cell of every list.
    return mark_safe(  # noqa: S308
        f'<time datetime="{utc.isoformat()}" title="{_clock(utc, exact=True)} UTC">{_clock(at)} {name}</time>'
    )


def both_clocks(value: datetime | None, zone: ZoneInfo | None = None) -> SafeString | str:
    """The job's own clock, and UTC below it where that differs."""
    if value is None or zone is None or zone.key == "UTC":
        return instant(value)
    utc = _clock(value.astimezone(UTC))
    return format_html('{}<span class="block text-subtle text-xs">{} UTC</span>', instant(value, zone), utc)


def _clock(value: datetime, *, exact: bool = False) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}" + (f".{value:%f}"[:4] if exact and value.microsecond else "")


def span(value: timedelta | None) -> SafeString | str:
    return NOTHING if value is None else format_html('<span class="line">{}</span>', said_span(value))


def said_span(value: timedelta) -> str:
    seconds = value.total_seconds()
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= LONG:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def said_age(value: timedelta) -> str:
    """How long ago or ahead: fractions of a second are noise there."""
    whole = timedelta(seconds=round(max(value, timedelta()).total_seconds()))
    return said_span(whole) if whole else "0 s"


def full_id(shown_id: str) -> SafeString:
    """All of it, for copying: in a fixed width it stays on one line."""
    return format_html('<span class="ident">{}</span>', shown_id)


def document(value: Any, *, secret: Collection[str] = ()) -> SafeString | str:
    """JSON as people read it; `secret` are names whose values they do not."""
    if value in (None, {}, []):
        return NOTHING
    text = json.dumps(cleansed(value, also=secret), indent=2, ensure_ascii=False, sort_keys=True)
    return preformatted(text)


def preformatted(text: str) -> SafeString | str:
    if not text:
        return NOTHING
    return format_html('<pre class="output">{}</pre>', without_secrets(text))


def folded(summary: str, content: SafeString | str) -> SafeString | str:
    """Shown when asked for; nothing to show folds nothing."""
    if content == NOTHING:
        return NOTHING
    return format_html('<details class="fold"><summary>{}</summary>{}</details>', summary, content)


def zone_of(job: Job) -> ZoneInfo | None:
    """The zone a job keeps time in, where its schedule, its settings or the platform names one."""
    prefix = ZONE_PREFIX.match(job.schedule)
    try:
        name = prefix[1] if prefix else (platform() | job.config).get("timezone")
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, KeyError, TypeError):
        return None  # a row that raw SQL spoiled must not take the page down
