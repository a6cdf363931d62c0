"""Callbacks of the admin theme: header counts of every page, the dashboard, the navigation."""

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from punctual.console.status.header_counts import HeaderCount, header_counts
from punctual.console.status.overview import overview
from punctual.jobs.clock import database_now

VIEW_LEDGER = "punctual.view_occurrence"
# Title, icon, URL name and permission of each page, in the order of the hierarchy.
PAGES = (
    ("Overview", "space_dashboard", "admin:index", "punctual.view_occurrence"),
    ("Timeline", "view_timeline", "punctual_console:timeline", "punctual.view_occurrence"),
    ("Jobs", "event_repeat", "admin:punctual_job_changelist", "punctual.view_job"),
    ("Occurrences", "event", "admin:punctual_occurrence_changelist", "punctual.view_occurrence"),
    ("Runs", "play_circle", "admin:punctual_taskrun_changelist", "punctual.view_taskrun"),
    ("Attempts", "replay", "admin:punctual_attempt_changelist", "punctual.view_attempt"),
    ("Dead letters", "dangerous", "punctual_console:dead", "punctual.view_taskrun"),
    ("Recovery", "healing", "punctual_console:recovery", "punctual.view_occurrence"),
    ("Pools", "select_check_box", "admin:punctual_pool_changelist", "punctual.view_pool"),
    ("Beats and workers", "favorite", "punctual_console:workers", "punctual.view_occurrence"),
    ("Versions", "history", "admin:punctual_jobversion_changelist", "punctual.view_jobversion"),
    ("Audit", "fact_check", "admin:punctual_audit_changelist", "punctual.view_audit"),
)


def page_context(request: HttpRequest) -> dict[str, object]:
    """Add the header counts, lazily: a page whose template does not show them does not count."""
    if not request.user.has_perm(VIEW_LEDGER):
        return {}
    return {"header_counts": SimpleLazyObject(_header_counts)}


def _header_counts() -> list[HeaderCount]:
    return header_counts(database_now())


def dashboard(request: HttpRequest, context: dict[str, object]) -> dict[str, object]:
    """Show the overview on the first page to users who may view the ledger."""
    if request.user.has_perm(VIEW_LEDGER):
        context |= {"overview": overview(database_now()), "title": "Overview"}
    return context


def navigation(request: HttpRequest) -> list[dict[str, object]]:
    """Return the sidebar: the pages this user may view."""
    items = [
        {"title": title, "icon": icon, "link": reverse(page)}
        for title, icon, page, permission in PAGES
        if request.user.has_perm(permission)
    ]
    return [{"title": "Scheduler", "items": items}] if items else []
