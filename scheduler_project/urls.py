"""Route the root to the admin, and the console beside it."""

from django.contrib import admin
from django.contrib.contenttypes.views import shortcut
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import include, path
from django.views.generic import RedirectView


def view_on_site(request: HttpRequest, content_type_id: int, object_id: str) -> HttpResponse:
    """Answer 404 to an id that is no UUID; Django's view lets the error of the field through."""
    try:
        return shortcut(request, content_type_id, object_id)
    except ValidationError:
        raise Http404(f"no object {object_id!r}") from None


urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/r/<int:content_type_id>/<path:object_id>/", admin.site.admin_view(view_on_site)),
    path("admin/", include("punctual.console.urls")),
    path("admin/", admin.site.urls),
]
