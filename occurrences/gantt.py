"""An occurrence, its runs and their attempts → a drawing of who worked when, and who waited. Pure.

A lane per run: a pale bar while it waited for its turn, a worker or its next try, and a bar per attempt.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from jobs.display import said_span
from jobs.svg import bar, line, linked, picture, word
from occurrences.badges import LOOKS
from occurrences.models import Attempt, Occurrence, TaskRun
from occurrences.states import AttemptState

LANE, TALL, THIN, AXIS = 24.0, 14.0, 6.0, 20.0
SHORTEST = timedelta(seconds=1)  # of the whole drawing
THINNEST = 0.4  # percent
TICKS = 4


@dataclass(frozen=True)
class Span:
    """What is drawn from `start` to `end`."""

    look: str
    start: datetime
    end: datetime
    title: str
    url: str = ""


@dataclass(frozen=True)
class Frame:
    start: datetime
    end: datetime

    def place(self, at: datetime) -> float:
        return max(0.0, min(100.0, (at - self.start) / (self.end - self.start) * 100))


def gantt(
    occurrence: Occurrence, runs: Sequence[TaskRun], attempts: Sequence[Attempt], now: datetime
) -> SafeString:
    frame = frame_of(occurrence, now)
    lanes: list[tuple[str, Sequence[Span]]] = [("occurrence", waits(occurrence, now))]
    for run in runs:
        mine = [one for one in attempts if one.run_id == run.pk]
        lanes.append((run.task.name, spans(run, mine, now)))
    named = format_html_join(
        "", '<div class="name" dir="auto" title="{0}">{0}</div><div>{1}</div>',
        ((name, drawn(name, found, frame)) for name, found in lanes),
    )  # fmt: skip
    head = format_html('<div class="name head"></div><div class="head">{}</div>', axis(frame))
    return format_html('<div class="gantt">{}{}</div>', head, named)


def frame_of(occurrence: Occurrence, now: datetime) -> Frame:
    start = min(occurrence.run_at, occurrence.fired_at or occurrence.run_at)
    end = occurrence.finished_at or now
    return Frame(start, max(end, start + SHORTEST))


def waits(occurrence: Occurrence, now: datetime) -> list[Span]:
    """Until it was fired, until a worker came, until it was over."""
    steps = [
        (
            "wait",
            "waited to be fired",
            occurrence.run_at,
            occurrence.fired_at or occurrence.finished_at or now,
        ),
        (
            "wait",
            "waited for a worker",
            occurrence.fired_at,
            occurrence.started_at or occurrence.finished_at or now,
        ),
        (_look(occurrence.state), "ran", occurrence.started_at, occurrence.finished_at or now),
    ]
    return [
        Span(look, start, end, f"{words} {said_span(end - start)}")
        for look, words, start, end in steps
        if start is not None and end > start
    ]


def spans(run: TaskRun, attempts: Iterable[Attempt], now: datetime) -> list[Span]:
    found: list[Span] = []
    since = run.available_at if not run.attempts_made else None
    free = run.occurrence.fired_at or run.available_at
    for attempt in sorted(attempts, key=lambda one: one.number):
        if free is not None and attempt.started_at > free:
            found.append(
                Span("wait", free, attempt.started_at, f"waited {said_span(attempt.started_at - free)}")
            )
        end = attempt.finished_at or now
        found.append(
            Span(_look(attempt.state), attempt.started_at, end, _title(attempt, end), _page(attempt))
        )
        free = end
    over = run.finished_at or now
    if run.finished_at is None and free is not None and (not found or found[-1].end < over):
        found.append(Span("wait", since or free, over, f"waits since {said_span(over - (since or free))}"))
    return found


def drawn(name: str, found: Sequence[Span], frame: Frame) -> SafeString:
    shapes = [line("axis", 100 * tick / TICKS, 0, 100 * tick / TICKS, LANE) for tick in range(TICKS + 1)]
    shapes += [_shape(one, frame) for one in found]
    label = f"{name}: " + ("; ".join(one.title for one in found) or "nothing yet")
    return picture(LANE, shapes, label=label)


def axis(frame: Frame) -> SafeString:
    """Time since the chosen start, not of day: what counts is how long."""
    whole = frame.end - frame.start
    anchors = {0: "start", TICKS: "end"}
    shapes = []
    for tick in range(TICKS + 1):
        text = f"+{said_span(whole * tick / TICKS)}" if tick else "chosen start"
        look = "" if tick in anchors else "minor"
        shapes.append(word(text, 100 * tick / TICKS, AXIS - 7, anchor=anchors.get(tick, "middle"), look=look))
    return picture(AXIS, shapes, label=f"{said_span(whole)} in all")


def _shape(one: Span, frame: Frame) -> SafeString:
    height = THIN if one.look == "wait" else TALL
    x = frame.place(one.start)
    width = max(frame.place(one.end) - x, THINNEST)
    shape = bar(one.look, x, width, y=(LANE - height) / 2, height=height, title=one.title)
    return linked(one.url, shape) if one.url else shape


def _look(state: str) -> str:
    tone, _ = LOOKS[state]
    return "none" if tone == "calm" else tone


def _title(attempt: Attempt, end: datetime) -> str:
    state = AttemptState(attempt.state).label
    by = f" on {attempt.worker}" if attempt.worker else ""
    return f"attempt {attempt.number + 1}{by}: {state}, {said_span(end - attempt.started_at)}"


def _page(attempt: Attempt) -> str:
    return reverse("admin:occurrences_attempt_change", args=[attempt.pk])
