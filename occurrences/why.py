"""An occurrence → why it is what it is: who asked, which rule, when exactly, what was decided about it.

Everything is read from rows or computed again from the definition that was in force, so an answer that
no longer agrees with the row says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

import schedules
from jobs.config import Config, loaded
from jobs.display import instant, link, said_span, short_id, zone_of
from jobs.models import Job, JobVersion
from jobs.secrecy import without_secrets
from occurrences.choosing import decided
from occurrences.models import Cause, Occurrence
from occurrences.zone_data import zone_data_version

NO_DELAY = timedelta()


@dataclass(frozen=True)
class Answer:
    question: str
    answer: SafeString | str
    detail: str = ""


@dataclass(frozen=True)
class Known:
    """An occurrence and the definition it came from, as far as that is still known."""

    occurrence: Occurrence
    version: JobVersion | None
    schedule: schedules.Schedule | None
    config: Config | None


def known(occurrence: Occurrence) -> Known:
    version = JobVersion.objects.filter(job=occurrence.job, number=occurrence.job_version).first()
    text = (version.after.get("schedule") if version else None) or occurrence.job.schedule
    config = _config(occurrence)
    return Known(occurrence, version, _schedule(str(text), occurrence.job, config), config)


def why_panel(occurrence: Occurrence) -> SafeString:
    answers = answered(known(occurrence))
    rows = ((one.question, one.answer, _small(one.detail)) for one in answers)
    return format_html('<dl class="facts">{}</dl>', format_html_join("", "<dt>{}</dt><dd>{}{}</dd>", rows))


def answered(facts: Known) -> Iterator[Answer]:
    yield asked(facts.occurrence)
    yield rule(facts)
    yield named_instant(facts.occurrence)
    yield chosen_start(facts)
    yield admission(facts.occurrence)
    yield from lateness(facts.occurrence)
    yield outcome(facts.occurrence)


def asked(one: Occurrence) -> Answer:
    who = {
        Cause.SCHEDULE: "Its schedule",
        Cause.RECOVERY: "Its schedule; recovery made up for it",
        Cause.MANUAL: "Somebody, by hand",
        Cause.REPLAY: "Somebody, as a replay",
        Cause.BACKFILL: "Somebody, as a backfill",
    }[Cause(one.cause)]
    by = f": {one.requested_by}" if one.requested_by else ""
    return Answer("Asked for by", f"{who}{by}", one.request_reason)


def rule(facts: Known) -> Answer:
    job, number = facts.occurrence.job, facts.occurrence.job_version
    text = facts.version.after.get("schedule", job.schedule) if facts.version else job.schedule
    name = f"version {number}"
    named = link(facts.version, name) if facts.version else name
    words = schedules.describe(facts.schedule) if facts.schedule else "it cannot be read any more"
    newer = f"; the job is at version {job.version} now" if job.version != number else ""
    return Answer("Rule", format_html("<code>{}</code> ({})", text, named), f"{words}{newer}")


def named_instant(one: Occurrence) -> Answer:
    zone = zone_of(one.job)
    detail = f"zone rules on this machine: {zone_data_version()}"
    return Answer("Instant", instant(one.scheduled_for, zone), detail)


def chosen_start(facts: Known) -> Answer:
    one = facts.occurrence
    delay = one.run_at - one.scheduled_for
    if not delay:
        return Answer("Chosen start", "at its instant", "nothing spreads or delays it")
    way = "later" if delay > NO_DELAY else "earlier"
    told = f"{said_span(abs(delay))} {way}"
    return Answer("Chosen start", told, "; ".join(_shares(facts)) or "moved by hand, or by an older rule")


def _shares(facts: Known) -> Iterator[str]:
    """What added up to the delay, drawn from names: every beat draws the same."""
    one, schedule, name = facts.occurrence, facts.schedule, facts.occurrence.job.name
    if schedule is None or facts.config is None:
        return
    spread = decided(schedule, facts.config, name, one.scheduled_for)
    start = one.scheduled_for
    if spread is not None and spread.chosen_time is not None:
        start = spread.chosen_time
        yield f"spread {said_span(abs(start - one.scheduled_for))} (seed {spread.seed_hash[:12]})"
    if isinstance(schedule, schedules.Expression):
        stagger, jitter = schedule.stagger_for(name), schedule.jitter_for(name, one.scheduled_for)
        if stagger:
            yield f"stagger {said_span(stagger)}, drawn from the job's name"
        if jitter:
            yield f"jitter {said_span(jitter)}, drawn from its name and instant"
        if start + stagger + jitter != one.run_at:
            yield "moved since, by hand or by another rule"


def admission(one: Occurrence) -> Answer:
    policy = one.config.get("overlap", "skip")
    told = f"overlap “{policy}”, pool “{one.pool}”, priority {one.priority}"
    waited = None if one.fired_at is None else one.fired_at - one.run_at
    if waited is None:
        return Answer("Admission", told, "not admitted" if one.finished_at else "not yet admitted")
    return Answer("Admission", told, f"admitted {said_span(max(waited, NO_DELAY))} after its chosen start")


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


def lineage(one: Occurrence, children: list[Occurrence]) -> list[list[object]]:
    """What it repeats, and what repeats it."""
    family = [("repeats", one.parent)] if one.parent else []
    family += [("is repeated by", child) for child in children]
    return [
        [word, link(other, short_id(other.shown_id)), other.get_cause_display(), instant(other.scheduled_for)]
        for word, other in family
        if other is not None
    ]


def _late(late_at: datetime | None) -> str:
    return f"it counted as late from {late_at:%Y-%m-%d %H:%M:%S} UTC on" if late_at else ""


def _small(text: str) -> SafeString:
    return format_html("<small>{}</small>", without_secrets(text)) if text else SafeString("")


def _config(one: Occurrence) -> Config | None:
    try:
        return loaded(one.config)
    except Exception:  # noqa: BLE001 - rows are edited by any road; the page says what it still can
        return None


def _schedule(text: str, job: Job, config: Config | None) -> schedules.Schedule | None:
    zone = config.timezone if config else None
    try:
        return schedules.parse(text, reference=job.created_at, timezone=zone, trigger_id=job.name)
    except Exception:  # noqa: BLE001 - as above, and a kind may be user code
        return None
