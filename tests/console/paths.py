"""Paths of every page of the console over the stored rows, by name."""

from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.db.models import Model
from django.urls import reverse

from punctual.jobs.clock import database_now
from punctual.jobs.models import Job, JobVersion, Task
from punctual.occurrences.models import Attempt, Cursor, Occurrence, Pool, TaskRun
from punctual.operations.models import Audit

LISTS = {
    "jobs": "punctual_job",
    "tasks": "punctual_task",
    "versions": "punctual_jobversion",
    "occurrences": "punctual_occurrence",
    "runs": "punctual_taskrun",
    "attempts": "punctual_attempt",
    "pools": "punctual_pool",
    "beats": "punctual_process",
    "audit": "punctual_audit",
}
ROWS: tuple[type[Model], ...] = (Job, Task, JobVersion, Occurrence, TaskRun, Attempt, Pool, Audit)


def lists() -> dict[str, str]:
    named = {name: reverse(f"admin:{model}_changelist") for name, model in LISTS.items()}
    own = {
        "timeline": reverse("punctual_console:timeline"),
        "dead letters": reverse("punctual_console:dead"),
        "recovery": reverse("punctual_console:recovery"),
        "workers": reverse("punctual_console:workers"),
    }
    return {"overview": reverse("admin:index"), **own, **named}


def pages() -> dict[str, str]:
    """The page of some row of each table."""
    rows = {model._meta.model_name or "": model._default_manager.order_by("pk").first() for model in ROWS}
    return {f"a {name}": page_of(row) for name, row in rows.items() if row is not None}


def change_pages() -> dict[str, str]:
    """Pages that lead to a change: editors, and the questions before an action."""
    paths = {
        "a new job": reverse("admin:punctual_job_add"),
        "dead letters, purge": reverse("punctual_console:act_on_dead_letters", args=["purge"]),
        "recovery, reap": reverse("punctual_console:act_on_platform", args=["reap"]),
        "recovery, catch up": reverse("punctual_console:act_on_platform", args=["recover"]),
        "recovery, resend": reverse("punctual_console:act_on_platform", args=["resend"]),
        "recovery, settle": reverse("punctual_console:act_on_platform", args=["settle"]),
    }
    job = Job.objects.filter(origin="admin").first()
    if job is not None:
        paths["a job, editor"] = reverse("admin:punctual_job_edit", args=[job.pk])
    if job_ids := [str(pk) for pk in Job.objects.values_list("pk", flat=True)[:8]]:
        query = urlencode({"jobs": ",".join(job_ids)})
        paths["chosen jobs, pause"] = f"{reverse('punctual_console:act_on_jobs', args=['pause'])}?{query}"
    if paused := Job.objects.filter(paused_at__isnull=False).first():
        paths["a job, resume"] = reverse("punctual_console:act_on_job", args=[paused.pk, "resume"])
    if broken := Cursor.objects.exclude(problem="").select_related("job").first():
        paths["a broken job"] = page_of(broken.job)
    if over := Occurrence.objects.filter(state="failed").first():
        paths["an occurrence, replay"] = reverse(
            "punctual_console:act_on_occurrence", args=[over.pk, "replay"]
        )
    return paths


def filtered_lists() -> dict[str, str]:
    """Each list with its filters and a search."""
    queries = {
        "occurrences": [{"state__exact": "failed"}, {"cause__exact": "replay"}, {"q": "e"}, two_days()],
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
        for of, filters in queries.items()
        for query in filters
    }


def page_of(row: Model) -> str:
    return reverse(f"admin:{row._meta.label_lower.replace('.', '_')}_change", args=[row.pk])


def big_paths() -> dict[str, str]:
    """Requests to a big ledger: far pages, filters, searches, the busiest job."""
    busiest = Job.objects.get(name="fleet-job-00001")
    middle = Occurrence.objects.order_by("scheduled_for")[500:501].get()
    far = Job.objects.order_by("name")[Job.objects.count() * 9 // 10]
    queries = {
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
        "occurrences, between two days": ("occurrences", two_days()),
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
    filtered = {name: f"{index[of]}?{urlencode(query)}" for name, (of, query) in queries.items()}
    own = {
        "the busiest job": page_of(busiest),
        "the busiest job, last month": f"{page_of(busiest)}?month={last_month():%Y-%m}",
        "history of a job": reverse("admin:punctual_job_history", args=[busiest.pk]),
        "counters": reverse("punctual_console:header_counts"),
        "filter by job": job_filter(),
    }
    return index | filtered | pages() | change_pages() | own | past_actions(busiest)


def past_actions(job: Job) -> dict[str, str]:
    """Pages that preview an action on the past of a job."""
    now = database_now()
    span = {"since": f"{now - timedelta(days=7):%Y-%m-%dT%H:%M}", "until": f"{now:%Y-%m-%dT%H:%M}"}
    return {
        "a week of the job, backfill": f"{action_url(job, 'backfill')}?{urlencode(span)}",
        "a week of the job, replay": f"{action_url(job, 'replay')}?{urlencode({**span, 'part': 'all'})}",
        "the busiest job, prune": action_url(job, "prune"),
        "all jobs, prune": reverse("punctual_console:prune_all"),
    }


def action_url(job: Job, name: str) -> str:
    return reverse("punctual_console:act_on_job", args=[job.pk, name])


def two_days() -> dict[str, str]:
    """Two days in the middle of the history."""
    middle = database_now() - timedelta(days=40)
    start, end = f"{middle:%Y-%m-%d}", f"{middle + timedelta(days=2):%Y-%m-%d}"
    return {"scheduled_for_from_0": start, "scheduled_for_from_1": "00:00:00",
            "scheduled_for_to_0": end, "scheduled_for_to_1": "00:00:00"}  # fmt: skip


def last_month() -> datetime:
    return database_now().replace(day=1) - timedelta(days=1)


def job_filter() -> str:
    """The request of the filter by job while an operator types."""
    query = {"term": "job-0042", "app_label": "punctual", "model_name": "occurrence", "field_name": "job"}
    return f"{reverse('admin:autocomplete')}?{urlencode(query)}"
