"""Paths of the console's own pages, below the admin's."""

from django.contrib import admin
from django.urls import path

from console import acts, dead, entering, pages, several, sweeping

app_name = "console"
urlpatterns = [
    path("pulse/", admin.site.admin_view(pages.pulse), name="pulse"),
    path("dead-letters/", admin.site.admin_view(dead.dead_letters), name="dead"),
    path("dead-letters/<slug:name>/", admin.site.admin_view(dead.deal), name="deal"),
    path("occurrence/<uuid:occurrence_id>/<slug:name>/", admin.site.admin_view(acts.act_on), name="act"),
    path("job/<uuid:job_id>/<slug:name>/", admin.site.admin_view(entering.job_door), name="job_door"),
    path("chosen-jobs/<slug:name>/", admin.site.admin_view(several.act_on_jobs), name="several"),
    path("prune/", admin.site.admin_view(entering.prune_all), name="prune_all"),
    path("chores/", admin.site.admin_view(sweeping.recovery), name="recovery"),
    path("chores/<slug:name>/", admin.site.admin_view(sweeping.chore), name="chore"),
    path("workers/", admin.site.admin_view(pages.workers), name="workers"),
    path("timeline/", admin.site.admin_view(pages.timeline), name="timeline"),
]
