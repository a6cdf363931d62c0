"""`schedule explain`: whether a schedule text is valid, what it means, and when it fires and starts next.

The verb needs a database only for `--job`.
"""

from argparse import ArgumentParser
from dataclasses import dataclass
from datetime import datetime

from django.core.management.base import CommandError
from django.utils import timezone

from punctual.commands.verb import Answer, Options, Row, Verb
from punctual.jobs.config.cascade import Config, job_config
from punctual.jobs.control import get_job
from punctual.jobs.job_schedule import reference_of
from punctual.jobs.models import Job
from punctual.occurrences.admission.capacity import starts_left
from punctual.occurrences.models import Cursor
from punctual.occurrences.planning.instants import choose
from punctual.schedules import (
    Explanation,
    Expression,
    Fire,
    Schedule,
    ScheduleError,
    Start,
    Trigger,
    explain,
    krontab,
    parse,
    unbounded,
)
from punctual.schedules.description import describe_spread
from punctual.schedules.durations import format_duration
from punctual.schedules.explanation import ANY_TRIGGER

MAX_FIRES = 1000
UNKNOWN_STARTS = "These are the nominal times; the starts depend on the job: add --job NAME."
MAX_ECHOED = 200  # characters of a wrong text that an error repeats


def arguments(parser: ArgumentParser) -> None:
    kinds = "Chronex by default; posix:, iso8601:, once:, delay:, kron: by prefix"
    parser.add_argument("expression", nargs="?", help=f"{kinds} (default: the schedule of --job)")
    parser.add_argument(
        "--job", help="show its start times: its stagger, jitter, spread, zone and starts so far"
    )
    parser.add_argument("--tz", help="IANA zone for a text without one (default: that of --job, or UTC)")
    parser.add_argument("-n", dest="count", type=int, default=10, help="how many fires (default 10)")
    parser.add_argument("--after", help="ISO 8601 instant to look ahead from (default now)")


@dataclass(frozen=True)
class NamedJob:
    """A stored job, whose name and settings decide when its occurrences start."""

    job: Job
    config: Config

    def start(self, schedule: Schedule, nominal: datetime) -> Start:
        choice = choose(schedule, self.config, self.job.name, nominal)
        return Start(choice.run_at, "" if choice.refusal is None else str(choice.refusal))

    def trigger(self, text: str, zone: str) -> Trigger:
        reference = reference_of(self.job)
        try:
            schedule = parse(text, reference=reference, timezone=zone)
        except ScheduleError:
            return Trigger(self.job.name, reference)  # `explain` says what is wrong with it
        cursor = Cursor.objects.filter(job=self.job).first()
        left = starts_left(schedule, cursor.starts if cursor else 0)
        return Trigger(self.job.name, reference, self.start, left)

    def lines(self, text: str, zone: str) -> list[str]:
        """What moves the starts of this job, and why it might not start at all."""
        parts = []
        inner = unbounded(parse(text, reference=reference_of(self.job), timezone=zone))
        if isinstance(inner, Expression) and inner.options.stagger:
            parts.append(f"stagger {format_duration(inner.stagger_for(self.job.name))}")
        if isinstance(inner, Expression) and inner.options.jitter:
            parts.append(f"jitter below {format_duration(inner.options.jitter)}")
        if self.config.spread:
            words = describe_spread(krontab.parse_spread(self.config.spread)).removeprefix("; ")
            parts.append(f"spread {self.config.spread}: {words}")
        lines = [f"job {self.job.name}: {'; '.join(parts) or 'starts at the nominal times'}"]
        if state := self._state():
            lines.append(f"warning {state}: the job is {state}; nothing starts")
        return lines

    def _state(self) -> str:
        if self.job.removed:
            return "removed"
        if not self.job.enabled:
            return "stopped"
        return "paused" if self.job.paused or self.job.suspended else ""


def run(options: Options) -> Answer:
    if not 0 <= options["count"] <= MAX_FIRES:
        raise CommandError(f"-n {options['count']}: expected 0 to {MAX_FIRES}")
    if options["expression"] is None and options["job"] is None:
        raise CommandError("expected a schedule text or --job NAME")
    named = _named_job(options["job"])
    text: str = options["expression"] if named is None or options["expression"] else named.job.schedule
    zone: str = options["tz"] or (named.config.timezone if named else "UTC")
    explanation = explain(
        text,
        after=_parse_after(options["after"]),
        timezone=zone,
        count=options["count"],
        trigger=named.trigger(text, zone) if named else ANY_TRIGGER,
    )
    moved = named.lines(text, zone) if named and explanation.is_valid else []

    def show(_row: Row) -> str:
        return "\n".join(_lines(explanation, moved)) if explanation.is_valid else ""

    return Answer([explanation.to_dict()], show, single=True, refusal="\n".join(_error_lines(explanation)))


def _named_job(name: str | None) -> NamedJob | None:
    if name is None:
        return None
    job = get_job(name)
    return NamedJob(job, job_config(job))


def _lines(explanation: Explanation, moved: list[str]) -> list[str]:
    return [
        explanation.description,
        f"kind {explanation.kind}, zone {explanation.timezone}, canonical {explanation.canonical}",
        *moved,
        *(f"warning {warning.code}: {warning.message}" for warning in explanation.warnings),
        *(map(_fire_line, explanation.fires) if explanation.fires else ["  no further fires"]),
        *(f"[{mark}]: {meaning}" for mark, meaning in explanation.legend.items()),
        *([UNKNOWN_STARTS] if any(fire.start is None for fire in explanation.fires) else []),
    ]


def _fire_line(fire: Fire) -> str:
    parts = [f"  {fire.instant:%Y-%m-%d %H:%M:%S} UTC", fire.local, f"[{fire.mark}]" if fire.mark else ""]
    if fire.start and fire.start.refusal:
        parts.append(f"skipped: {fire.start.refusal}")
    elif fire.start and fire.start.at != fire.instant:
        parts.append(f"starts {fire.start.at:%Y-%m-%d %H:%M:%S} UTC ({_shift(fire.instant, fire.start.at)})")
    return "  ".join(part for part in parts if part)


def _shift(nominal: datetime, start: datetime) -> str:
    sign = "-" if start < nominal else "+"
    return sign + format_duration(abs(start - nominal))


def _error_lines(explanation: Explanation) -> list[str]:
    """Return each error with a caret under its position in the text."""
    lines: list[str] = []
    for error in explanation.errors:
        lines.append(f"{error.code} {error}")
        if error.position is not None and "\n" not in explanation.text:
            lines += [
                f"  {explanation.text[:MAX_ECHOED]}",
                f"  {' ' * min(error.position, MAX_ECHOED)}^",
            ]
    return lines


def _parse_after(text: str | None) -> datetime:
    if text is None:
        return timezone.now()
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"--after {text!r}: expected an ISO 8601 instant") from None
    if instant.tzinfo is None:
        raise CommandError(f"--after {text!r}: expected an offset, as in 2026-03-07T00:00:00Z")
    return instant


VERBS = (
    Verb(
        "explain",
        "validity, plain words, next fires with DST marks, start times of a job",
        run,
        arguments,
        system_checks=False,
    ),
)
