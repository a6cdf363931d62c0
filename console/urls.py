"""Paths of the console's own pages, below the admin's."""

from django.contrib import admin
from django.urls import path

from console import acts, dead, pages

app_name = "console"
urlpatterns = [
    path("pulse/", admin.site.admin_view(pages.pulse), name="pulse"),
    path("dead-letters/", admin.site.admin_view(dead.dead_letters), name="dead"),
    path("dead-letters/<slug:name>/", admin.site.admin_view(dead.deal), name="deal"),
    path("occurrence/<uuid:occurrence_id>/<slug:name>/", admin.site.admin_view(acts.act_on), name="act"),
    path("timeline/", admin.site.admin_view(pages.timeline), name="timeline"),
]
