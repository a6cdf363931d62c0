"""A press of a button on a job → what was done, in words for the operator and for Django's log."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.control import pause, resume, start, stop, trigger
from jobs.display import anchor
from jobs.ids import shown
from jobs.models import Job

Asked = Mapping[str, str]
BACKLOG = {
    "none": "none: go on from the next instant",
    "last": "last: run the last one",
    "all": "all: run each of them, as its own occurrence",
    "compressed": "compressed: run once; the run is told which instants it covers",
}


@dataclass(frozen=True)
class Pressed:
    message: SafeString | str
    log: str = ""  # empty: nothing changed, nothing to log


@dataclass(frozen=True)
class Button:
    """`press` is told the job, what was asked, and who presses; `asks` names the page that asks first."""

    name: str
    label: str
    permission: str
    press: Callable[[Job, Asked, str], Pressed]
    asks: str = ""


def _run(job: Job, _asked: Asked, _author: str) -> Pressed:
    occurrence = trigger(job.name)
    url = reverse("admin:occurrences_occurrence_change", args=[occurrence])
    shown_id = shown("occ", occurrence)
    message = format_html("“{}” runs now: {}", job.name, anchor(url, shown_id))
    return Pressed(message, f"Run now: {shown_id}")


def _pause(job: Job, _asked: Asked, _author: str) -> Pressed:
    if pause(job.name):
        return Pressed(f"“{job.name}” is paused; its instants are recorded as skipped.", "Paused")
    return Pressed(f"“{job.name}” was paused already.")


def _resume(job: Job, asked: Asked, _author: str) -> Pressed:
    backlog = asked.get("backlog", "none")
    if resume(job.name, backlog=backlog):
        message = f"“{job.name}” runs again from its next instant on; of its backlog: {backlog}."
        return Pressed(message, f"Resumed, backlog: {backlog}")
    return Pressed(f"“{job.name}” was not paused.")


def _stop(job: Job, _asked: Asked, author: str) -> Pressed:
    if stop(job.name, author=author):
        return Pressed(f"“{job.name}” is stopped; nothing is planned until it is started.", "Stopped")
    return Pressed(f"“{job.name}” was stopped already.")


def _start(job: Job, _asked: Asked, author: str) -> Pressed:
    if start(job.name, author=author):
        return Pressed(f"“{job.name}” is started; it owes nothing for the time it was off.", "Started")
    return Pressed(f"“{job.name}” was started already.")


RUN_NOW = Button("run", "Run now", "jobs.trigger_job", _run)
PAUSE = Button("pause", "Pause", "jobs.pause_job", _pause)
RESUME = Button("resume", "Resume…", "jobs.pause_job", _resume, asks="admin:jobs_job_resume")
STOP = Button("stop", "Stop", "jobs.pause_job", _stop)
START = Button("start", "Start", "jobs.pause_job", _start)
BUTTONS = {button.name: button for button in (RUN_NOW, PAUSE, RESUME, STOP, START)}


def offered(job: Job) -> list[Button]:
    """What makes sense on this job's page."""
    if job.removed:
        return []
    return [RUN_NOW, RESUME if job.paused else PAUSE, STOP if job.enabled else START]
