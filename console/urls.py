"""Paths of the console's own pages, below the admin's."""

from django.contrib import admin
from django.urls import path

from punctual.console.acting.targets import (
    DeadLettersTarget,
    JobListTarget,
    JobTarget,
    LedgerTarget,
    OccurrenceTarget,
    PlatformTarget,
)
from punctual.console.acting.view import act
from punctual.console.ledger import dead_letter_pages
from punctual.console.status import views

app_name = "punctual_console"
act_view = admin.site.admin_view(act)
urlpatterns = [
    path("pulse/", admin.site.admin_view(views.header_counts_view), name="header_counts"),
    path("dead-letters/", admin.site.admin_view(dead_letter_pages.dead_letters), name="dead"),
    path("dead-letters/<slug:name>/", act_view, {"target": DeadLettersTarget}, name="act_on_dead_letters"),
    path(
        "occurrence/<uuid:occurrence_id>/<slug:name>/",
        act_view,
        {"target": OccurrenceTarget},
        name="act_on_occurrence",
    ),
    path("job/<uuid:job_id>/<slug:name>/", act_view, {"target": JobTarget}, name="act_on_job"),
    path("chosen-jobs/<slug:name>/", act_view, {"target": JobListTarget}, name="act_on_jobs"),
    path("prune/", act_view, {"target": LedgerTarget, "name": "prune"}, name="prune_all"),
    path("chores/", admin.site.admin_view(views.recovery), name="recovery"),
    path("chores/<slug:name>/", act_view, {"target": PlatformTarget}, name="act_on_platform"),
    path("workers/", admin.site.admin_view(views.workers), name="workers"),
    path("timeline/", admin.site.admin_view(views.timeline), name="timeline"),
]
