"""Answer /healthz, /readyz and /metrics, without login and before any check of the host name.

A load balancer, a container runtime and Prometheus have no login and ask by address, and ALLOWED_HOSTS
holds names. The answers name jobs and counts, hold no secrets and take nothing from the request, so a forged
host name gains nothing. Keep the paths inside the network by routing.
"""

from collections.abc import Callable

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from punctual.conf import current_settings
from punctual.console.status.health import DEGRADING, readiness
from punctual.console.status.metrics import render_metrics
from punctual.jobs.clock import database_now


@require_safe
@never_cache
def healthz(_request: HttpRequest) -> HttpResponse:
    """Answer as long as the process does; /readyz checks what it depends on."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@never_cache
def readyz(_request: HttpRequest) -> JsonResponse:
    """Answer 503 unless the platform works; `degraded` if it works and a part of it does not."""
    checks = readiness(current_settings().oldest_tick)
    failed = {name for name, check in checks.items() if not check.ok}
    ready = failed <= DEGRADING
    lines = {name: {"ok": check.ok, "detail": check.detail} for name, check in checks.items()}
    verdict = {"ready": ready, "degraded": ready and bool(failed), "checks": lines}
    return JsonResponse(verdict, status=200 if ready else 503)


@require_safe
@never_cache
def metrics(_request: HttpRequest) -> HttpResponse:
    try:
        return HttpResponse(render_metrics(database_now()), content_type=CONTENT_TYPE_LATEST)
    except DatabaseError as error:
        line = f"the database cannot be read ({type(error).__name__})\n"
        return HttpResponse(line, status=503, content_type="text/plain")


PROBES: dict[str, Callable[[HttpRequest], HttpResponse]] = {
    "/healthz": healthz,
    "/readyz": readyz,
    "/metrics": metrics,
}


class ProbeMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return PROBES.get(request.path, self.get_response)(request)
