"""Explain a schedule while it is typed: words and next fires, or each mistake and its position."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.html import format_html
from django.utils.safestring import SafeString

from punctual.console.kit.display import instant, zone_of
from punctual.jobs.clock import database_now
from punctual.jobs.job_schedule import ScheduleSummary, schedule_of, schedule_summary, schedule_warnings
from punctual.jobs.models import Job
from punctual.schedules import Problem, ScheduleError

MAX_FIRES = 25
MAX_SCHEDULE, MAX_CONFIG = 1000, 20_000  # characters


@dataclass(frozen=True)
class Mistake:
    """`marked` is the text with the wrong part marked, if the parser knows its position."""

    message: str
    marked: SafeString | str = ""


@dataclass(frozen=True)
class Hint:
    summary: ScheduleSummary = field(default_factory=ScheduleSummary)
    mistakes: tuple[Mistake, ...] = ()
    warnings: tuple[str, ...] = ()


def schedule_hint(request: HttpRequest) -> HttpResponse:
    """Answer the editor. Nothing is stored, and no stored data is shown; the caller checks permissions."""
    now = database_now()
    row = unsaved_job(request.POST, now)
    hint = make_hint(row, now)
    zone = zone_of(row)
    fires = [(instant(fire.instant, zone), fire.note) for fire in hint.summary.fires]
    return render(request, "punctual_console/definitions/schedule_hint.html", {"hint": hint, "fires": fires})


def unsaved_job(posted: QueryDict, now: datetime) -> Job:
    """Make a row that is never stored. Intervals count from the creation of the edited job, an instant
    that is relative from now."""
    stored = Job.objects.filter(pk=parse_job_id(posted.get("job", ""))).first()
    return Job(
        name=stored.name if stored else posted.get("name", "")[:200],
        schedule=posted.get("schedule", "").strip()[:MAX_SCHEDULE],
        config=parse_config(posted.get("config", "")),
        created_at=stored.created_at if stored else now,
        anchored_at=now,
    )


def make_hint(row: Job, now: datetime) -> Hint:
    if not row.schedule:
        return Hint()
    try:
        schedule_of(row)
    except ScheduleError as error:
        return Hint(mistakes=tuple(list_mistakes(error, row.schedule)))
    except Exception as error:  # noqa: BLE001 - a half-typed configuration, or a custom kind of schedule
        return Hint(mistakes=(Mistake(str(error) or type(error).__name__),))
    summary = schedule_summary(row, now, MAX_FIRES)
    if summary.problem:
        return Hint(mistakes=(Mistake(summary.problem),))
    return Hint(summary, warnings=tuple(schedule_warnings(row, now)))


def list_mistakes(error: ScheduleError, text: str) -> list[Mistake]:
    problems = getattr(error, "errors", None) or [
        Problem("", error.field, str(error), error.value, error.position)
    ]
    return [
        Mistake(str(problem), mark_mistake(text, problem.position, problem.value)) for problem in problems
    ]


def mark_mistake(text: str, position: int | None, value: str) -> SafeString | str:
    """Mark `value` if it is at `position`: an error may carry a shortened or quoted value."""
    if position is None or not value or text[position : position + len(value)] != value:
        return ""
    before, after = text[:position], text[position + len(value) :]
    return format_html("{}<mark>{}</mark>{}", before, value, after)


def parse_config(text: str) -> dict[str, object]:
    try:
        config = json.loads(text[:MAX_CONFIG] or "{}")
    except (ValueError, RecursionError):
        return {}  # the form reports it
    return config if isinstance(config, dict) else {}


def parse_job_id(text: str) -> UUID:
    """Return an id that matches no job if the text is not an id."""
    try:
        return UUID(text)
    except ValueError:
        return UUID(int=0)
