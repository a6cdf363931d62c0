"""A job and what somebody wants done with its history → how much it would be, and then it is done.

Each door asks for its own permission, and does nothing before it has said how many. What it may cost is
bounded: a request looks at so many rows and not at more, and says where it stopped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from django import forms
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from unfold.widgets import UnfoldAdminRadioSelectWidget  # type: ignore[import-untyped]

from console.chores import OFFERS, do, look
from console.instants import InstantField, typed
from console.shown import Done, Facts, Shown, at_least
from jobs.display import Section, anchor, instant, list_url, zone_of
from jobs.models import Job, Origin
from occurrences.badges import state_badge
from occurrences.states import OccurrenceState
from recovery.audit import Asked
from recovery.backfill import backfill
from recovery.ranges import chosen
from recovery.replay import replay
from recovery.retention import cutoff_of, keeping, outlook, prune
from recovery.span import Span

BACKFILLS, REPLAYS, PRUNES = (
    "recovery.backfill_job",
    "occurrences.replay_occurrence",
    "recovery.prune_job",
)
MOST = 10_000  # occurrences a request makes, or looks at
MOST_PRUNED = 2_000
DAY = timedelta(days=1)
KEEPS_ALL = (
    "It has no retention, neither of its own nor from the platform: it keeps everything. "
    "Set `retention`, such as 30d, in its configuration."
)
NOTHING_OLD = "Nothing is older than its retention; dead letters stay until somebody deals with them."
Wish = Mapping[str, Any]


@dataclass(frozen=True)
class Door:
    """`look` reads, `do` writes; both are told the job, the wish, and the moment."""

    label: str
    permission: str
    meaning: str
    form: Callable[..., forms.Form]
    look: Callable[[Job, Wish, datetime], Shown]
    do: Callable[[Job, Wish, Asked, datetime], Done]
    removed_too: bool = False
    danger: bool = field(default=False)

    def open_to(self, job: Job) -> bool:
        return self.removed_too or not (job.removed or job.origin == Origin.POLLING)


class SpanForm(forms.Form):
    """Two instants; `seen` and `key` travel with the count that was shown."""

    seen = forms.DateTimeField(required=False, widget=forms.HiddenInput)
    key = forms.CharField(required=False, max_length=200, widget=forms.HiddenInput)

    def __init__(self, job: Job, now: datetime, *args: Any, **kwargs: Any) -> None:
        zone = zone_of(job)
        began = {"since": typed(now - DAY, zone), "until": typed(now, zone)}
        super().__init__(*args, **kwargs)
        self.initial = began
        self.fields["since"] = InstantField("from", zone)
        self.fields["until"] = InstantField("to", zone, last=True)
        self.order_fields(["since", "until"])


class ReplayForm(SpanForm):
    part = forms.ChoiceField(
        label="What runs again",
        choices=[("all", "all tasks of each occurrence"), ("failed", "only tasks that did not succeed")],
        widget=UnfoldAdminRadioSelectWidget,
    )

    def __init__(self, job: Job, now: datetime, *args: Any, **kwargs: Any) -> None:
        super().__init__(job, now, *args, **kwargs)
        self.fields["part"].initial = "all"
        self.order_fields(["since", "until", "part"])


class NoForm(forms.Form):
    def __init__(self, _job: Job, _now: datetime, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


def held(form: forms.Form, now: datetime) -> list[tuple[str, str]]:
    """What the button posts: the wish, exact, and what the count was true of."""
    wish = form.cleaned_data
    if "since" not in wish:
        return []
    kept = [(name, wish[name].isoformat()) for name in ("since", "until")]
    kept += [("part", wish["part"])] if "part" in wish else []
    return [*kept, ("seen", now.isoformat()), ("key", str(uuid4()))]


def _span(wish: Wish) -> Span:
    return Span(wish["since"], wish["until"])


def _range_facts(job: Job, wish: Wish) -> Facts:
    zone = zone_of(job)
    return [("job", job.name), ("from", instant(wish["since"], zone)), ("to", instant(wish["until"], zone))]


def look_at_backfill(job: Job, wish: Wish, now: datetime) -> Shown:
    found = backfill(job, _span(wish), asked=Asked(""), now=now, dry_run=True, most=MOST)
    zone = zone_of(job)
    facts: Facts = [
        *_range_facts(job, wish),
        ("instants the schedule names there", f"{found.instants:,}"),
        ("of these exist already, and stay", f"{found.existing:,}"),
        ("would be created", f"{found.made:,}"),
    ]
    if found.made:
        facts += [("first of them", instant(found.first, zone)), ("last of them", instant(found.last, zone))]
    known = [[instant(at, zone)] for at in found.existing_at]
    title = (
        f"Exist already ({len(known)} of {found.existing:,})"
        if len(known) < found.existing
        else "Exist already"
    )
    hint = (
        "" if found.instants else "The schedule names no instant that is past in this range; choose another."
    )
    if found.instants and not found.made:
        hint = "Every instant of this range has its occurrence; to run them again, replay the range."
    if found.made and found.pruned_until:
        at = f"{found.pruned_until.astimezone(zone or UTC):%Y-%m-%d %H:%M}"
        hint = (
            f"Up to {at} instants may have run already: their occurrences are pruned. They would run again."
        )
    return Shown(found.made, facts, tables=[Section(title, ["instant"], known)] if known else [], hint=hint)


def do_backfill(job: Job, wish: Wish, asked: Asked, now: datetime) -> Done:
    made = backfill(job, _span(wish), asked=asked, now=now, most=MOST).made
    where = list_url("occurrences_occurrence", job__id__exact=job.pk, cause__exact="backfill")
    return Done(made, format_html("{}: {} are filled in.", job.name, anchor(where, f"{made:,} occurrences")))


def look_at_replay(job: Job, wish: Wish, now: datetime) -> Shown:
    found = chosen(job, _span(wish), failed_only=wish["part"] == "failed", seen=now, now=now, most=MOST)
    total = len(found.ids) + found.others
    facts: Facts = [
        *_range_facts(job, wish),
        ("what runs again", "only what did not succeed" if wish["part"] == "failed" else "all tasks"),
        ("occurrences in the range", f"{total:,}"),
        ("would be repeated", f"{len(found.ids):,}"),
        ("left out: under way, ranges, replays, or nothing failed", f"{found.others:,}"),
    ]
    rows: list[list[object]] = [
        [state_badge(OccurrenceState(state)), f"{count:,}"] for state, count in found.states.most_common()
    ]
    hint = "" if total else "There is no occurrence of this job in this range; choose another."
    if total and not found.ids:
        hint = "Nothing in this range can be repeated that way."
    tables = [Section("How they ended", ["state", "occurrences"], rows)] if rows else []
    return Shown(len(found.ids), facts, tables=tables, hint=hint)


def do_replay(job: Job, wish: Wish, asked: Asked, now: datetime) -> Done:
    failed_only = wish["part"] == "failed"
    seen = min(wish.get("seen") or now, now)
    ids = chosen(job, _span(wish), failed_only=failed_only, seen=seen, now=now, most=MOST).ids
    told = {"job": job.name, "from": wish["since"].isoformat(), "to": wish["until"].isoformat()}
    done = replay(ids, asked=asked, now=now, failed_only=failed_only, key=wish.get("key") or None, told=told)
    where = list_url("occurrences_occurrence", job__id__exact=job.pk, cause__exact="replay")
    made = len(done.made)
    return Done(made, format_html("{}: {} run again.", job.name, anchor(where, f"{made:,} occurrences")))


def look_at_prune(job: Job, _wish: Wish, now: datetime) -> Shown:
    cutoff = cutoff_of(job, now)
    if cutoff is None:
        return Shown(0, [("job", job.name)], hint=KEEPS_ALL)
    found = outlook(keeping([job], now), MOST_PRUNED)
    zone = zone_of(job)
    facts: Facts = [("job", job.name), ("ended before", instant(cutoff, zone))]
    if found.count:
        facts += [("oldest", instant(found.first, zone)), ("newest", instant(found.last, zone))]
    hint = "" if found.count else NOTHING_OLD
    return Shown(found.count, facts, said=at_least(found.count, more=found.more), hint=hint)


def do_prune(job: Job, _wish: Wish, asked: Asked, now: datetime) -> Done:
    kept = prune(job, asked=asked, now=now, most=MOST_PRUNED)
    count = kept.pruned if kept else 0
    return Done(count, pruned_message(job.name, count, more=kept is not None and kept.more))


def look_at_recover(job: Job, _wish: Wish, now: datetime) -> Shown:
    return look(OFFERS["recover"], now, job)


def do_recover(job: Job, _wish: Wish, asked: Asked, now: datetime) -> Done:
    return do(OFFERS["recover"], asked, now, job)


def pruned_message(whose: str, count: int, *, more: bool) -> str:
    rest = " There are more: beats go on with them by themselves, or press again." if more else ""
    return f"{whose}: {count:,} occurrences are deleted; counters keep them.{rest}"


DOORS = {
    "backfill": Door(
        "Backfill", BACKFILLS,
        "Instants of the past that have no occurrence get one each, due at once, in their order. "
        "The schedule goes on as it was.",
        SpanForm, look_at_backfill, do_backfill,
    ),
    "replay": Door(
        "Replay", REPLAYS,
        "Each runs again as a new occurrence linked to the old one, in their order; overlap and pools hold.",
        ReplayForm, look_at_replay, do_replay,
    ),
    "prune": Door(
        "Prune", PRUNES,
        "They are deleted with their runs and attempts, for good. Counters do not fall. "
        "Beats do the same by themselves, a few at a time.",
        NoForm, look_at_prune, do_prune, removed_too=True, danger=True,
    ),
    "recover": Door(
        OFFERS["recover"].label, OFFERS["recover"].permission, OFFERS["recover"].meaning,
        NoForm, look_at_recover, do_recover,
    ),
}  # fmt: skip
LABELS = {"backfill": "Backfill", "replay": "Replay a range", "recover": "Catch up", "prune": "Prune"}


def offered(job: Job, request: HttpRequest) -> list[tuple[str, str]]:
    """Labels and addresses of what makes sense and is allowed."""
    return [
        (LABELS[name], reverse("console:job_door", args=[job.pk, name]))
        for name, door in DOORS.items()
        if door.open_to(job) and request.user.has_perm(door.permission)
    ]
