"""Grid of the newest runs of a job: a row per task, a column per occurrence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from punctual.console.kit.badges import STATE_LOOKS
from punctual.console.kit.display import SHAPES
from punctual.jobs.models import Job
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import RunState

MAX_COLUMNS, MAX_RUNS = 25, 1000


@dataclass(frozen=True)
class Cell:
    tone: str
    drawing: SafeString
    title: str
    url: str


@dataclass(frozen=True)
class Row:
    task: str
    cells: Sequence[Cell | None]


def grid_panel(job: Job) -> SafeString | str:
    fired = Occurrence.objects.filter(job=job, fired_at__isnull=False).order_by("-scheduled_for")
    newest = list(fired.only("id", "scheduled_for")[:MAX_COLUMNS])[::-1]
    runs = TaskRun.objects.filter(occurrence__in=[one.pk for one in newest]).select_related("task")
    columns = runs.only("occurrence_id", "state", "reason", "task__name", "task__position", "attempts_made")
    rows = grid(newest, list(columns.order_by("task__position", "task__name")[:MAX_RUNS]))
    return (
        SafeString(render_to_string("punctual_console/definitions/task_grid.html", {"rows": rows}))
        if rows
        else ""
    )


def grid(columns: Sequence[Occurrence], runs: Sequence[TaskRun]) -> list[Row]:
    places: Mapping[UUID, int] = {one.pk: place for place, one in enumerate(columns)}
    rows: dict[str, list[Cell | None]] = {}
    for run in runs:
        cells = rows.setdefault(run.task.name, [None] * len(columns))
        place = places[run.occurrence_id]
        cells[place] = _cell(run, columns[place])
    return [Row(name, cells) for name, cells in rows.items()]


def _cell(run: TaskRun, occurrence: Occurrence) -> Cell:
    tone, shape = STATE_LOOKS[run.state]
    tries = f", {run.attempts_made} attempts" if run.attempts_made > 1 else ""
    when = f"{occurrence.scheduled_for:%Y-%m-%d %H:%M:%S} UTC"
    title = f"{run.task.name}, {when}: {RunState(run.state).label}{tries}"
    url = reverse("admin:punctual_taskrun_change", args=[run.pk])
    return Cell(tone, mark_safe(SHAPES[shape]), title, url)  # noqa: S308 - a constant
