"""Every page of the console, by name → its path over the rows that are there."""

from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.db.models import Model
from django.urls import reverse

from jobs.clock import database_now
from jobs.models import Job, JobVersion, Task
from occurrences.models import Attempt, Cursor, Occurrence, Pool, TaskRun
from recovery.models import Audit

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
ROWS: tuple[type[Model], ...] = (Job, Task, JobVersion, Occurrence, TaskRun, Attempt, Pool, Audit)


def lists() -> dict[str, str]:
    named = {name: reverse(f"admin:{model}_changelist") for name, model in LISTS.items()}
    own = {
        "timeline": reverse("console:timeline"),
        "dead letters": reverse("console:dead"),
        "recovery": reverse("console:recovery"),
        "workers": reverse("console:workers"),
    }
    return {"overview": reverse("admin:index"), **own, **named}


def pages() -> dict[str, str]:
    """The page of some row of each table."""
    found = {model._meta.model_name or "": model._default_manager.order_by("pk").first() for model in ROWS}
    return {f"a {name}": page_of(row) for name, row in found.items() if row is not None}


def doors() -> dict[str, str]:
    """The pages that lead to a change: editors, what must be mended, and the questions before an act."""
    found = {
        "a new job": reverse("admin:jobs_job_add"),
        "dead letters, purge": reverse("console:deal", args=["purge"]),
        "recovery, reap": reverse("console:chore", args=["reap"]),
        "recovery, catch up": reverse("console:chore", args=["recover"]),
        "recovery, resend": reverse("console:chore", args=["resend"]),
        "recovery, settle": reverse("console:chore", args=["settle"]),
    }
    job = Job.objects.filter(origin="admin").first()
    if job is not None:
        found["a job, editor"] = reverse("admin:jobs_job_edit", args=[job.pk])
    if chosen := [str(pk) for pk in Job.objects.values_list("pk", flat=True)[:8]]:
        asked = urlencode({"jobs": ",".join(chosen)})
        found["chosen jobs, pause"] = f"{reverse('console:several', args=['pause'])}?{asked}"
    if paused := Job.objects.filter(paused_at__isnull=False).first():
        found["a job, resume"] = reverse("admin:jobs_job_resume", args=[paused.pk])
    if broken := Cursor.objects.exclude(problem="").select_related("job").first():
        found["a broken job"] = page_of(broken.job)
    if over := Occurrence.objects.filter(state="failed").first():
        found["an occurrence, replay"] = reverse("console:act", args=[over.pk, "replay"])
    return found


def narrowed() -> dict[str, str]:
    """Each list with its filters and a search."""
    asked = {
        "occurrences": [{"state__exact": "failed"}, {"cause__exact": "replay"}, {"q": "e"}, between()],
        "runs": [{"state__exact": "scheduled"}, {"state__exact": "dlq"}, {"q": "e"}],
        "attempts": [{"state__exact": "running"}, {"state__exact": "failed"}, {"q": "e"}],
        "jobs": [{"state": "paused"}, {"origin__exact": "admin"}, {"q": "e"}],
        "tasks": [{"q": "e"}],
        "audit": [{"action__exact": "replay"}],
        "pools": [{"q": "a"}],
        "dead letters": [{"q": "e"}],
        "timeline": [{"q": "e"}, {"span": "7d"}],
    }
    index = lists()
    return {
        f"{of}: {urlencode(query)}": f"{index[of]}?{urlencode(query)}"
        for of, queries in asked.items()
        for query in queries
    }


def page_of(row: Model) -> str:
    return reverse(f"admin:{row._meta.label_lower.replace('.', '_')}_change", args=[row.pk])


def big_paths() -> dict[str, str]:
    """What somebody asks of a big ledger: far pages, filters, searches, the busiest job."""
    busiest = Job.objects.get(name="fleet-job-00001")
    middle = Occurrence.objects.order_by("scheduled_for")[500:501].get()
    far = Job.objects.order_by("name")[Job.objects.count() * 9 // 10]
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
        "occurrences, between two days": ("occurrences", between()),
        "tasks, searched": ("tasks", {"q": "fleet-job-0042"}),
        "versions of a job": ("versions", {"job__id__exact": str(busiest.pk)}),
        "timeline, 7 days": ("timeline", {"span": "7d"}),
        "timeline, searched": ("timeline", {"q": "job-0042"}),
        "audit, replays": ("audit", {"action__exact": "replay"}),
        "dead letters, searched": ("dead letters", {"q": "space left"}),
        "jobs, far back": ("jobs", {"after": str(far.pk)}),
        "jobs, paused": ("jobs", {"state": "paused"}),
        "jobs, searched": ("jobs", {"q": "job-0042"}),
    }
    index = lists()
    filtered = {name: f"{index[of]}?{urlencode(query)}" for name, (of, query) in asked.items()}
    own = {
        "the busiest job": page_of(busiest),
        "the busiest job, last month": f"{page_of(busiest)}?month={last_month():%Y-%m}",
        "history of a job": reverse("admin:jobs_job_history", args=[busiest.pk]),
        "counters": reverse("console:pulse"),
        "filter by job": job_filter(),
    }
    return index | filtered | pages() | doors() | own | past_of(busiest)


def past_of(job: Job) -> dict[str, str]:
    """What can be done to its past: the page that shows how much it would be."""
    now = database_now()
    span = {"since": f"{now - timedelta(days=7):%Y-%m-%dT%H:%M}", "until": f"{now:%Y-%m-%dT%H:%M}"}
    return {
        "a week of the busiest job, backfill": f"{door_of(job, 'backfill')}?{urlencode(span)}",
        "a week of the busiest job, replay": f"{door_of(job, 'replay')}?{urlencode(span | {'part': 'all'})}",
        "the busiest job, prune": door_of(job, "prune"),
        "all jobs, prune": reverse("console:prune_all"),
    }


def door_of(job: Job, name: str) -> str:
    return reverse("console:job_door", args=[job.pk, name])


def between() -> dict[str, str]:
    """Two days in the middle of it all."""
    middle = database_now() - timedelta(days=40)
    start, end = f"{middle:%Y-%m-%d}", f"{middle + timedelta(days=2):%Y-%m-%d}"
    return {"scheduled_for_from_0": start, "scheduled_for_from_1": "00:00:00",
            "scheduled_for_to_0": end, "scheduled_for_to_1": "00:00:00"}  # fmt: skip


def last_month() -> datetime:
    return database_now().replace(day=1) - timedelta(days=1)


def job_filter() -> str:
    """What the filter by job asks while somebody types."""
    asked = {"term": "job-0042", "app_label": "occurrences", "model_name": "occurrence", "field_name": "job"}
    return f"{reverse('admin:autocomplete')}?{urlencode(asked)}"
