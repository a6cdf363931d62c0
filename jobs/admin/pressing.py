"""A button of a job's page, or an act on several jobs → the press, its message and its line in the log."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.safestring import SafeString

from jobs.admin.rendering import rendered
from jobs.buttons import RESUME, Button
from jobs.display import instant, zone_of
from jobs.errors import PunctualError
from jobs.forms import BacklogForm
from jobs.models import Job
from jobs.theme import ModelAdmin, PlainAdmin


@dataclass(frozen=True)
class Outcome:
    """What the operator is told; `changed` where something was done."""

    message: SafeString | str
    level: int

    @property
    def changed(self) -> bool:
        return self.level == messages.SUCCESS


def pressed(
    page: ModelAdmin[Job], request: HttpRequest, button: Button, job: Job, asked: Mapping[str, str]
) -> Outcome:
    """Done and logged, with the `reason` among what was `asked`; not yet told."""
    if job.removed:
        return Outcome(f"“{job.name}” is no longer registered.", messages.ERROR)
    try:
        found = button.press(job, asked, request.user.get_username())
    except PunctualError as error:
        return Outcome(f"“{job.name}”: {error}", messages.ERROR)
    if found.log:
        page.log_change(request, job, ": ".join(filter(None, [found.log, asked.get("reason", "")])))
    return Outcome(found.message, messages.SUCCESS if found.log else messages.INFO)


def press(
    page: PlainAdmin[Job], request: HttpRequest, button: Button, job: Job, asked: Mapping[str, str]
) -> None:
    outcome = pressed(page, request, button, job, asked)
    page.message_user(request, outcome.message, outcome.level)


def ask_backlog(
    page: PlainAdmin[Job], request: HttpRequest, job: Job, skipped: Callable[[Job], int | None]
) -> HttpResponse:
    """`skipped` counts the instants that fell into the pause, where somebody knows."""
    if not job.paused:
        page.message_user(request, f"“{job.name}” is not paused.", messages.INFO)
        return HttpResponseRedirect(reverse("admin:jobs_job_change", args=[job.pk]))
    context = {
        "title": f"Resume: {job.name}",
        "form": BacklogForm(),
        "skipped": skipped(job),
        "since": instant(job.paused_at, zone_of(job)),
        "press_url": reverse("admin:jobs_job_press", args=[job.pk, RESUME.name]),
    }
    return rendered(page, request, job, "jobs/resume.html", context)
