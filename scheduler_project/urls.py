"""Route the root to the admin, and the console beside it."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", include("punctual.console.urls")),
    path("admin/", admin.site.urls),
]
