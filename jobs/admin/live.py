"""A schedule as it is being typed → what it means, in words and fires, or each mistake and where it is."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.clock import database_now
from jobs.display import instant, zone_of
from jobs.models import Job
from jobs.scheduling import schedule_of
from jobs.timing import Timing, doubts, timing
from schedules import Problem, ScheduleError

FIRES = 25
LONGEST, LONGEST_CONFIG = 1000, 20_000  # characters


@dataclass(frozen=True)
class Mistake:
    """`marked` is the text with the wrong part marked, where the parser knows which."""

    message: str
    marked: SafeString | str = ""


@dataclass(frozen=True)
class Hint:
    timing: Timing = field(default_factory=Timing)
    mistakes: tuple[Mistake, ...] = ()
    doubts: tuple[str, ...] = ()


def live(request: HttpRequest) -> HttpResponse:
    """Nothing is stored, and nothing of what is stored is shown; the caller has asked for permission."""
    now = database_now()
    row = typed(request.POST, now)
    hint = hinted(row, now)
    zone = zone_of(row)
    fires = [(instant(fire.instant, zone), fire.note) for fire in hint.timing.fires]
    return render(request, "jobs/live.html", {"hint": hint, "fires": fires, "most": FIRES})


def typed(posted: QueryDict, now: datetime) -> Job:
    """A row that is never stored. Intervals count from the creation of the job that is edited."""
    known = Job.objects.filter(pk=id_in(posted.get("job", ""))).first()
    return Job(
        name=known.name if known else posted.get("name", "")[:200],
        schedule=posted.get("schedule", "").strip()[:LONGEST],
        config=config_in(posted.get("config", "")),
        created_at=known.created_at if known else now,
    )


def hinted(row: Job, now: datetime) -> Hint:
    if not row.schedule:
        return Hint()
    try:
        schedule_of(row)
    except ScheduleError as error:
        return Hint(mistakes=tuple(mistakes(error, row.schedule)))
    except Exception as error:  # noqa: BLE001 - the configuration may be half typed, and a kind user code
        return Hint(mistakes=(Mistake(str(error) or type(error).__name__),))
    found = timing(row, now, FIRES)
    if found.problem:
        return Hint(mistakes=(Mistake(found.problem),))
    return Hint(found, doubts=tuple(doubts(row, now)))


def mistakes(error: ScheduleError, text: str) -> list[Mistake]:
    found = getattr(error, "errors", None) or [
        Problem("", error.field, str(error), error.value, error.position)
    ]
    return [Mistake(one.message, marked(text, one.position, one.value)) for one in found]


def marked(text: str, position: int | None, value: str) -> SafeString | str:
    """Only what is really there: behind a prefix such as `kron:` positions count from its end."""
    if position is None or not value or text[position : position + len(value)] != value:
        return ""
    before, after = text[:position], text[position + len(value) :]
    return format_html("{}<mark>{}</mark>{}", before, value, after)


def config_in(text: str) -> dict[str, object]:
    try:
        found = json.loads(text[:LONGEST_CONFIG] or "{}")
    except (ValueError, RecursionError):
        return {}  # the form says so itself
    return found if isinstance(found, dict) else {}


def id_in(text: str) -> UUID:
    """Anything that is no id finds no job."""
    try:
        return UUID(text)
    except ValueError:
        return UUID(int=0)
