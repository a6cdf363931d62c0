"""Who asks → the sidebar: the way down the hierarchy, in its order, as far as they may look."""

from django.http import HttpRequest
from django.urls import reverse

PAGES = (
    ("Jobs", "event_repeat", "jobs_job", "jobs.view_job"),
    ("Occurrences", "event", "occurrences_occurrence", "occurrences.view_occurrence"),
    ("Runs", "play_circle", "occurrences_taskrun", "occurrences.view_taskrun"),
    ("Attempts", "replay", "occurrences_attempt", "occurrences.view_attempt"),
    ("Pools", "select_check_box", "occurrences_pool", "occurrences.view_pool"),
    ("Beats", "favorite", "beat_beat", "beat.view_beat"),
)


def navigation(request: HttpRequest) -> list[dict[str, object]]:
    items = [
        {"title": title, "icon": icon, "link": reverse(f"admin:{page}_changelist")}
        for title, icon, page, permission in PAGES
        if request.user.has_perm(permission)
    ]
    return [{"title": "Scheduler", "items": items}] if items else []
