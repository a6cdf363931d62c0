"""Requests for a probe's path → answered before any check of the host name.

Load balancers and container runtimes ask by address, and ALLOWED_HOSTS holds names. The answers hold
no secrets and take nothing from the request, so there is nothing for a forged name to do.
"""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from console import views

PROBES: dict[str, Callable[[HttpRequest], HttpResponse]] = {
    "/healthz": views.healthz,
    "/readyz": views.readyz,
    "/metrics": views.metrics,
}


class ProbeMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return PROBES.get(request.path, self.get_response)(request)
