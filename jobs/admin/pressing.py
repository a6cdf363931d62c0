"""A button of a job's page, or an action on a list → the press, its message and its line in the log."""

from collections.abc import Callable, Mapping

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from jobs.admin.rendering import rendered
from jobs.buttons import RESUME, Button
from jobs.display import instant, zone_of
from jobs.errors import PunctualError
from jobs.forms import BacklogForm
from jobs.models import Job
from jobs.theme import PlainAdmin


def press(
    page: PlainAdmin[Job], request: HttpRequest, button: Button, job: Job, asked: Mapping[str, str]
) -> None:
    if job.removed:
        page.message_user(request, f"“{job.name}” is no longer registered.", messages.ERROR)
        return
    try:
        pressed = button.press(job, asked, request.user.get_username())
    except PunctualError as error:
        page.message_user(request, f"“{job.name}”: {error}", messages.ERROR)
        return
    if pressed.log:
        page.log_change(request, job, pressed.log)
    page.message_user(request, pressed.message, messages.SUCCESS if pressed.log else messages.INFO)


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
