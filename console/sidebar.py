"""Who asks → the sidebar: the way down the hierarchy, in its order, as far as they may look."""

from django.http import HttpRequest
from django.urls import reverse

PAGES = (
    ("Overview", "space_dashboard", "admin:index", "occurrences.view_occurrence"),
    ("Timeline", "view_timeline", "console:timeline", "occurrences.view_occurrence"),
    ("Jobs", "event_repeat", "admin:jobs_job_changelist", "jobs.view_job"),
    ("Occurrences", "event", "admin:occurrences_occurrence_changelist", "occurrences.view_occurrence"),
    ("Runs", "play_circle", "admin:occurrences_taskrun_changelist", "occurrences.view_taskrun"),
    ("Attempts", "replay", "admin:occurrences_attempt_changelist", "occurrences.view_attempt"),
    ("Dead letters", "dangerous", "console:dead", "occurrences.view_taskrun"),
    ("Recovery", "healing", "console:recovery", "occurrences.view_occurrence"),
    ("Pools", "select_check_box", "admin:occurrences_pool_changelist", "occurrences.view_pool"),
    ("Beats and workers", "favorite", "console:workers", "occurrences.view_occurrence"),
    ("Versions", "history", "admin:jobs_jobversion_changelist", "jobs.view_jobversion"),
    ("Audit", "fact_check", "admin:recovery_audit_changelist", "recovery.view_audit"),
)


def navigation(request: HttpRequest) -> list[dict[str, object]]:
    items = [
        {"title": title, "icon": icon, "link": reverse(page)}
        for title, icon, page, permission in PAGES
        if request.user.has_perm(permission)
    ]
    return [{"title": "Scheduler", "items": items}] if items else []
