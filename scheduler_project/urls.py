"""Paths → views."""

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView

from console import views

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("healthz", views.healthz, name="healthz"),
    path("readyz", views.readyz, name="readyz"),
    path("metrics", views.metrics, name="metrics"),
    path("admin/", admin.site.urls),
]
