"""Every page of the console, by name → its path over the rows that are there."""

from urllib.parse import urlencode

from django.db.models import Model
from django.urls import reverse

from jobs.models import Job, JobVersion, Task
from occurrences.models import Attempt, Occurrence, Pool, TaskRun

LISTS = {
    "jobs": "jobs_job",
    "tasks": "jobs_task",
    "versions": "jobs_jobversion",
    "occurrences": "occurrences_occurrence",
    "runs": "occurrences_taskrun",
    "attempts": "occurrences_attempt",
    "pools": "occurrences_pool",
    "beats": "beat_beat",
    "audit": "recovery_audit",
}
ROWS: tuple[type[Model], ...] = (Job, Task, JobVersion, Occurrence, TaskRun, Attempt, Pool)


def lists() -> dict[str, str]:
    named = {name: reverse(f"admin:{model}_changelist") for name, model in LISTS.items()}
    own = {
        "timeline": reverse("console:timeline"),
        "dead letters": reverse("console:dead"),
        "workers": reverse("console:workers"),
    }
    return {"overview": reverse("admin:index"), **own, **named}


def pages() -> dict[str, str]:
    """The page of some row of each table."""
    found = {model._meta.model_name or "": model._default_manager.order_by("pk").first() for model in ROWS}
    return {f"a {name}": page_of(row) for name, row in found.items() if row is not None}


def doors() -> dict[str, str]:
    """The pages that lead to a change: editors, and the questions before an act."""
    found = {
        "a new job": reverse("admin:jobs_job_add"),
        "dead letters, purge": reverse("console:deal", args=["purge"]),
    }
    job = Job.objects.filter(origin="admin").first()
    if job is not None:
        found["a job, editor"] = reverse("admin:jobs_job_edit", args=[job.pk])
    if paused := Job.objects.filter(paused_at__isnull=False).first():
        found["a job, resume"] = reverse("admin:jobs_job_resume", args=[paused.pk])
    if over := Occurrence.objects.filter(state="failed").first():
        found["an occurrence, replay"] = reverse("console:act", args=[over.pk, "replay"])
    return found


def page_of(row: Model) -> str:
    return reverse(f"admin:{row._meta.label_lower.replace('.', '_')}_change", args=[row.pk])


def big_paths() -> dict[str, str]:
    """What somebody asks of a big ledger: far pages, filters, searches, the busiest job."""
    busiest = Job.objects.get(name="fleet-job-00001")
    middle = Occurrence.objects.order_by("scheduled_for")[500:501].get()
    asked = {
        "occurrences, far back": ("occurrences", {"after": str(middle.pk)}),
        "occurrences, failed": ("occurrences", {"state__exact": "failed"}),
        "occurrences, by recovery": ("occurrences", {"cause__exact": "recovery"}),
        "occurrences of the busiest job": ("occurrences", {"job__id__exact": str(busiest.pk)}),
        "occurrences, job searched": ("occurrences", {"q": "fleet-job-0042"}),
        "occurrences, rarely found": ("occurrences", {"q": "no such job"}),
        "runs, dead": ("runs", {"state__exact": "dlq"}),
        "runs, job searched": ("runs", {"q": "fleet-job-0042"}),
        "runs, scheduled": ("runs", {"state__exact": "scheduled"}),
        "runs, running": ("runs", {"state__exact": "running"}),
        "runs, canceled": ("runs", {"state__exact": "canceled"}),
        "attempts, timed out": ("attempts", {"state__exact": "timeout"}),
        "attempts, running": ("attempts", {"state__exact": "running"}),
        "attempts, failed": ("attempts", {"state__exact": "failed"}),
        "dead letters, searched": ("dead letters", {"q": "space left"}),
        "jobs, far back": ("jobs", {"after": str(Job.objects.get(name="fleet-job-09000").pk)}),
        "jobs, paused": ("jobs", {"state": "paused"}),
        "jobs, searched": ("jobs", {"q": "job-0042"}),
    }
    index = lists()
    narrowed = {name: f"{index[of]}?{urlencode(query)}" for name, (of, query) in asked.items()}
    return index | narrowed | pages() | {"the busiest job": page_of(busiest)}
