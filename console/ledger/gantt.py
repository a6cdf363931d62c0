"""Gantt chart of an occurrence, its runs and their attempts. Pure.

One lane per run: a pale bar while it waited for its turn, a worker or a retry, and a bar per attempt.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from punctual.console.kit.badges import STATE_LOOKS
from punctual.console.kit.charts import bar, label_text, line, link_shapes, picture
from punctual.console.kit.display import format_span
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import AttemptState

LANE, TALL, THIN, AXIS = 24.0, 14.0, 6.0, 20.0
SHORTEST = timedelta(seconds=1)  # of the whole drawing
THINNEST = 0.4  # percent
TICKS = 4


@dataclass(frozen=True)
class Span:
    """A bar from `start` to `end`."""

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


def draw_gantt(
    occurrence: Occurrence, runs: Sequence[TaskRun], attempts: Sequence[Attempt], now: datetime
) -> SafeString:
    frame = frame_of(occurrence, now)
    lanes: list[tuple[str, Sequence[Span]]] = [("occurrence", occurrence_spans(occurrence, now))]
    for run in runs:
        own = [attempt for attempt in attempts if attempt.run_id == run.pk]
        lanes.append((run.task.name, run_spans(run, own, now)))
    rows = format_html_join(
        "", '<div class="name" dir="auto" title="{0}">{0}</div><div>{1}</div>',
        ((name, draw_lane(name, spans, frame)) for name, spans in lanes),
    )  # fmt: skip
    head = format_html('<div class="name head"></div><div class="head">{}</div>', draw_axis(frame))
    return format_html('<div class="gantt">{}{}</div>', head, rows)


def frame_of(occurrence: Occurrence, now: datetime) -> Frame:
    start = min(occurrence.run_at, occurrence.fired_at or occurrence.run_at)
    end = occurrence.finished_at or now
    return Frame(start, max(end, start + SHORTEST))


def occurrence_spans(occurrence: Occurrence, now: datetime) -> list[Span]:
    """Return the bars of an occurrence: until it was fired, until a worker claimed it, until it finished."""
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
        Span(look, start, end, f"{words} {format_span(end - start)}")
        for look, words, start, end in steps
        if start is not None and end > start
    ]


def run_spans(run: TaskRun, attempts: Iterable[Attempt], now: datetime) -> list[Span]:
    spans: list[Span] = []
    since = run.available_at if not run.attempts_made else None
    free = run.occurrence.fired_at or run.available_at
    for attempt in sorted(attempts, key=lambda one: one.number):
        if free is not None and attempt.started_at > free:
            spans.append(
                Span("wait", free, attempt.started_at, f"waited {format_span(attempt.started_at - free)}")
            )
        end = attempt.finished_at or now
        spans.append(
            Span(_look(attempt.state), attempt.started_at, end, _title(attempt, end), _page(attempt))
        )
        free = end
    over = run.finished_at or now
    if run.finished_at is None and free is not None and (not spans or spans[-1].end < over):
        spans.append(Span("wait", since or free, over, f"waits since {format_span(over - (since or free))}"))
    return spans


def draw_lane(name: str, spans: Sequence[Span], frame: Frame) -> SafeString:
    shapes = [line("axis", 100 * tick / TICKS, 0, 100 * tick / TICKS, LANE) for tick in range(TICKS + 1)]
    shapes += [_shape(one, frame) for one in spans]
    label = f"{name}: " + ("; ".join(one.title for one in spans) or "nothing yet")
    return picture(LANE, shapes, label=label)


def draw_axis(frame: Frame) -> SafeString:
    """Draw the time since the start time: durations matter here, not the time of day."""
    whole = frame.end - frame.start
    anchors = {0: "start", TICKS: "end"}
    shapes = []
    for tick in range(TICKS + 1):
        text = f"+{format_span(whole * tick / TICKS)}" if tick else "start time"
        look = "" if tick in anchors else "minor"
        shapes.append(
            label_text(text, 100 * tick / TICKS, AXIS - 7, anchor=anchors.get(tick, "middle"), look=look)
        )
    return picture(AXIS, shapes, label=f"{format_span(whole)} in all")


def _shape(one: Span, frame: Frame) -> SafeString:
    height = THIN if one.look == "wait" else TALL
    x = frame.place(one.start)
    width = max(frame.place(one.end) - x, THINNEST)
    shape = bar(one.look, x, width, y=(LANE - height) / 2, height=height, title=one.title)
    return link_shapes(one.url, shape) if one.url else shape


def _look(state: str) -> str:
    tone, _ = STATE_LOOKS[state]
    return "none" if tone == "calm" else tone


def _title(attempt: Attempt, end: datetime) -> str:
    state = AttemptState(attempt.state).label
    by = f" on {attempt.worker}" if attempt.worker else ""
    return f"attempt {attempt.number + 1}{by}: {state}, {format_span(end - attempt.started_at)}"


def _page(attempt: Attempt) -> str:
    return reverse("admin:punctual_attempt_change", args=[attempt.pk])
