"""Paths of the console's own pages, below the admin's."""

from django.contrib import admin
from django.urls import path

from console import pages

app_name = "console"
urlpatterns = [
    path("pulse/", admin.site.admin_view(pages.pulse), name="pulse"),
    path("timeline/", admin.site.admin_view(pages.timeline), name="timeline"),
]
