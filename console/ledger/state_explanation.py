"""Explain an occurrence: its cause, its rule, its instant, its start time and how it was admitted.

Everything is read from rows or computed again from the definition that was in force; where the result no
longer agrees with the row, the answer says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from zoneinfo import TZPATH

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from punctual import schedules
from punctual.console.kit.display import format_span, instant, link, short_id, zone_of
from punctual.jobs.config.cascade import Config, load_snapshot
from punctual.jobs.models import Job, JobVersion
from punctual.jobs.redaction import redact_text
from punctual.occurrences.models import Cause, Occurrence
from punctual.occurrences.planning.instants import decide_spread

NO_DELAY = timedelta()


@dataclass(frozen=True)
class Answer:
    question: str
    answer: SafeString | str
    detail: str = ""


@dataclass(frozen=True)
class Facts:
    """An occurrence and the definition it was planned with, as far as it is still stored."""

    occurrence: Occurrence
    version: JobVersion | None
    schedule: schedules.Schedule | None
    config: Config | None


def read_facts(occurrence: Occurrence) -> Facts:
    version = JobVersion.objects.filter(job=occurrence.job, number=occurrence.job_version).first()
    text = (version.after.get("schedule") if version else None) or occurrence.job.schedule
    config = _config(occurrence)
    return Facts(occurrence, version, _schedule(str(text), occurrence.job, config), config)


def explanation_panel(occurrence: Occurrence) -> SafeString:
    answers = explain(read_facts(occurrence))
    rows = ((one.question, one.answer, _small(one.detail)) for one in answers)
    return format_html('<dl class="facts">{}</dl>', format_html_join("", "<dt>{}</dt><dd>{}{}</dd>", rows))


def explain(facts: Facts) -> Iterator[Answer]:
    yield cause(facts.occurrence)
    yield rule(facts)
    yield named_instant(facts.occurrence)
    yield start_time(facts)
    yield admission(facts.occurrence)
    yield from lateness(facts.occurrence)
    yield outcome(facts.occurrence)


def cause(one: Occurrence) -> Answer:
    verb = {
        Cause.SCHEDULE: "Scheduled",
        Cause.RECOVERY: "Scheduled, recovered after its time",
        Cause.MANUAL: "Triggered",
        Cause.REPLAY: "Replayed",
        Cause.BACKFILL: "Backfilled",
    }[Cause(one.cause)]
    by = f" by {one.requested_by}" if one.requested_by else ""
    return Answer("Cause", f"{verb}{by}", one.request_reason)


def rule(facts: Facts) -> Answer:
    job, number = facts.occurrence.job, facts.occurrence.job_version
    text = facts.version.after.get("schedule", job.schedule) if facts.version else job.schedule
    name = f"version {number}"
    version = link(facts.version, name) if facts.version else name
    words = schedules.describe(facts.schedule) if facts.schedule else "it cannot be read any more"
    newer = f"; the job is at version {job.version} now" if job.version != number else ""
    return Answer("Rule", format_html("<code>{}</code> ({})", text, version), f"{words}{newer}")


def named_instant(one: Occurrence) -> Answer:
    zone = zone_of(one.job)
    detail = f"zone rules on this machine: {zone_data_version()}"
    return Answer("Instant", instant(one.scheduled_for, zone), detail)


def start_time(facts: Facts) -> Answer:
    one = facts.occurrence
    delay = one.run_at - one.scheduled_for
    if not delay:
        return Answer("Start time", "at its instant", "nothing spreads or delays it")
    direction = "later" if delay > NO_DELAY else "earlier"
    answer = f"{format_span(abs(delay))} {direction}"
    return Answer("Start time", answer, "; ".join(_shares(facts)) or "moved by hand, or by an older rule")


def _shares(facts: Facts) -> Iterator[str]:
    """Yield the parts of the delay. They are derived from names, so that every beat computes the same."""
    one, schedule, name = facts.occurrence, facts.schedule, facts.occurrence.job.name
    if schedule is None or facts.config is None:
        return
    spread = decide_spread(schedule, facts.config, name, one.scheduled_for)
    start = one.scheduled_for
    if spread is not None and spread.chosen_time is not None:
        start = spread.chosen_time
        yield f"spread {format_span(abs(start - one.scheduled_for))} (seed {spread.seed_hash[:12]})"
    if isinstance(schedule, schedules.Expression):
        stagger, jitter = schedule.stagger_for(name), schedule.jitter_for(name, one.scheduled_for)
        if stagger:
            yield f"stagger {format_span(stagger)}, derived from the job's name"
        if jitter:
            yield f"jitter {format_span(jitter)}, derived from its name and instant"
        if start + stagger + jitter != one.run_at:
            yield "moved since, by hand or by another rule"


def admission(one: Occurrence) -> Answer:
    policy = one.config.get("overlap", "skip")
    limits = f"overlap “{policy}”, pool “{one.pool}”, priority {one.priority}"
    waited = None if one.fired_at is None else one.fired_at - one.run_at
    if waited is None:
        return Answer("Admission", limits, "not admitted" if one.finished_at else "not yet admitted")
    return Answer("Admission", limits, f"admitted {format_span(max(waited, NO_DELAY))} after its start time")


def lateness(one: Occurrence) -> Iterator[Answer]:
    if one.cause == Cause.RECOVERY or one.state == "missed":
        strategy = one.config.get("recovery", "")
        taken = "run after all" if one.state != "missed" else "recorded as missed"
        yield Answer("Recovery", f"strategy “{strategy}”: {taken}", _late(one.late_at))
    if one.instants > 1 or one.covers:
        count = one.instants if one.instants > 1 else len(one.covers or [])
        yield Answer("Stands for", f"{count} instants", "one row for many")
    if one.expires_at is not None:
        yield Answer("Window", instant(one.expires_at, zone_of(one.job)), "must not start after it")


def outcome(one: Occurrence) -> Answer:
    return Answer("Outcome", one.get_state_display(), one.reason)


def lineage_rows(one: Occurrence, children: list[Occurrence]) -> list[list[object]]:
    """List the occurrence it repeats, and those that repeat it."""
    family = [("repeats", one.parent)] if one.parent else []
    family += [("is repeated by", child) for child in children]
    return [
        [
            word,
            link(other, short_id(other.display_id)),
            other.get_cause_display(),
            instant(other.scheduled_for),
        ]
        for word, other in family
        if other is not None
    ]


def _late(late_at: datetime | None) -> str:
    return f"it counted as late after {late_at:%Y-%m-%d %H:%M:%S} UTC" if late_at else ""


def _small(text: str) -> SafeString:
    return format_html("<small>{}</small>", redact_text(text)) if text else SafeString("")


def _config(one: Occurrence) -> Config | None:
    try:
        return load_snapshot(one.config)
    except Exception:  # noqa: BLE001 - raw SQL may have written anything; the page shows the rest
        return None


def _schedule(text: str, job: Job, config: Config | None) -> schedules.Schedule | None:
    zone = config.timezone if config else None
    try:
        return schedules.parse(text, reference=job.created_at, timezone=zone, trigger_id=job.name)
    except Exception:  # noqa: BLE001 - as above, and a custom kind of schedule may raise anything
        return None


@cache
def zone_data_version() -> str:
    """Return the version of the zone rules that `zoneinfo` reads: of the system, else of `tzdata`."""
    for folder in TZPATH:
        if system := _system_version(Path(folder)):
            return f"{system} (system)"
    try:
        return f"{version('tzdata')} (package tzdata)"
    except PackageNotFoundError:
        return "unknown"


def _system_version(folder: Path) -> str:
    if (folder / "+VERSION").is_file():
        return (folder / "+VERSION").read_text().strip()
    listing = folder / "tzdata.zi"
    if not listing.is_file():
        return ""
    with listing.open() as lines:
        first = next(lines, "")
    return first.removeprefix("# version ").strip() if first.startswith("# version ") else ""
