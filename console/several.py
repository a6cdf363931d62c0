"""Jobs ticked in their list → a page that says how many an act would change; then it is done to each."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.text import Truncator
from django.views.decorators.http import require_http_methods

from console.asking import ReasonForm, asked_by, why
from jobs.admin.pressing import Outcome, pressed
from jobs.buttons import PAUSE, RESUME, RUN_NOW, Button
from jobs.models import Job

LIST = "admin:jobs_job_changelist"
MOST = 100  # jobs of one request; a page of the list shows fewer
NAMED, LONGEST = 10, 60


@dataclass(frozen=True)
class Act:
    """`fits` tells which of the chosen it would change, `rest` why it leaves the others alone."""

    label: str
    button: Button
    meaning: str
    fits: Callable[[Job], bool]
    rest: str
    done: str


ACTS = {
    "run": Act(
        "Run", RUN_NOW, "Each runs once, at once, beside its schedule.",
        lambda job: not job.removed, "no longer registered", "run now",
    ),
    "pause": Act(
        "Pause", PAUSE, "Their instants are recorded as skipped until somebody resumes them.",
        lambda job: not (job.removed or job.paused), "paused already, or no longer registered", "paused",
    ),
    "resume": Act(
        "Resume", RESUME,
        "They run again from their next instant on. What was skipped meanwhile stays skipped; "
        "to make up for it, resume a job from its own page.",
        lambda job: job.paused and not job.removed, "not paused, or no longer registered", "resumed",
    ),
}  # fmt: skip


def several_url(name: str, jobs: Iterable[UUID]) -> str:
    return f"{reverse('console:several', args=[name])}?{urlencode({'jobs': ','.join(map(str, jobs))})}"


@require_http_methods(["GET", "HEAD", "POST"])
def act_on_jobs(request: HttpRequest, name: str) -> HttpResponse:
    act = ACTS.get(name)
    if act is None:
        raise Http404(f"nothing is called {name!r}")
    if not request.user.has_perm(act.button.permission):
        raise PermissionDenied
    jobs = list(Job.objects.filter(pk__in=ids_in(request.POST or request.GET)).order_by("name"))
    form = why(request)
    if request.method != "POST" or not form.is_valid():
        return asked_first(request, act, jobs, form)
    reason = asked_by(request, form).reason
    page = admin.site.get_model_admin(Job)
    tell(request, act, [pressed(page, request, act.button, job, {"reason": reason}) for job in jobs])
    return HttpResponseRedirect(reverse(LIST))


def ids_in(asked: QueryDict) -> list[UUID]:
    texts = asked.get("jobs", "").split(",")
    if len(texts) > MOST:
        raise BadRequest(f"jobs: {len(texts)} ids, at most {MOST} allowed")
    try:
        return [UUID(text) for text in texts]
    except ValueError:
        raise BadRequest(f"jobs={asked.get('jobs', '')!r}: expected ids, separated by commas") from None


def asked_first(request: HttpRequest, act: Act, jobs: Sequence[Job], form: ReasonForm) -> HttpResponse:
    fitting = [job for job in jobs if act.fits(job)]
    others = [job for job in jobs if not act.fits(job)]
    facts = [("jobs", named(fitting))] if fitting else []
    facts += [(f"left alone: {act.rest}", named(others))] if others else []
    context = {
        **admin.site.each_context(request),
        "title": f"{act.label} jobs",
        "label": act.label,
        "meaning": act.meaning,
        "count": len(fitting),
        "what": "job" if len(fitting) == 1 else "jobs",
        "facts": facts,
        "held": [("jobs", ",".join(str(job.pk) for job in fitting))],
        "back": reverse(LIST),
        "why": form,
    }
    return render(request, "console/confirm.html", context)


def named(jobs: Sequence[Job]) -> str:
    names = [Truncator(job.name).chars(LONGEST) for job in jobs[:NAMED]]
    more = f" and {len(jobs) - NAMED} more" if len(jobs) > NAMED else ""
    return ", ".join(names) + more


def tell(request: HttpRequest, act: Act, outcomes: Sequence[Outcome]) -> None:
    """One line for all that went well; each that did not has its own."""
    done = sum(outcome.changed for outcome in outcomes)
    level = messages.SUCCESS if done else messages.WARNING
    messages.add_message(request, level, f"{done} job{'' if done == 1 else 's'} {act.done}.")
    for outcome in outcomes:
        if not outcome.changed:
            messages.add_message(request, outcome.level, outcome.message)
