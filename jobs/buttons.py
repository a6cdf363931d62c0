"""A press of a button on a job → what was done, in words for the operator and for Django's log."""

from collections.abc import Callable
from dataclasses import dataclass

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.control import pause, resume, trigger
from jobs.display import anchor
from jobs.ids import shown
from jobs.models import Job


@dataclass(frozen=True)
class Pressed:
    message: SafeString | str
    log: str = ""  # empty: nothing changed, nothing to log


@dataclass(frozen=True)
class Button:
    name: str
    label: str
    permission: str
    press: Callable[[Job], Pressed]


def _run(job: Job) -> Pressed:
    occurrence = trigger(job.name)
    url = reverse("admin:occurrences_occurrence_change", args=[occurrence])
    shown_id = shown("occ", occurrence)
    message = format_html("“{}” runs now: {}", job.name, anchor(url, shown_id))
    return Pressed(message, f"Run now: {shown_id}")


def _pause(job: Job) -> Pressed:
    if pause(job.name):
        return Pressed(f"“{job.name}” is paused; its instants are recorded as skipped.", "Paused")
    return Pressed(f"“{job.name}” was paused already.")


def _resume(job: Job) -> Pressed:
    if resume(job.name):
        return Pressed(f"“{job.name}” runs again from its next instant on.", "Resumed")
    return Pressed(f"“{job.name}” was not paused.")


RUN_NOW = Button("run", "Run now", "jobs.trigger_job", _run)
PAUSE = Button("pause", "Pause", "jobs.pause_job", _pause)
RESUME = Button("resume", "Resume", "jobs.pause_job", _resume)
BUTTONS = {button.name: button for button in (RUN_NOW, PAUSE, RESUME)}


def offered(job: Job) -> list[Button]:
    """What makes sense on this job's page."""
    return [] if job.removed else [RUN_NOW, RESUME if job.paused else PAUSE]
