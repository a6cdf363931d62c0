"""Probes and scrapes → answers. Open to all: they name jobs and counts, and hold no secrets.

A load balancer, a container runtime and Prometheus have no login; keep the paths inside by routing.
"""

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from console.health import readiness
from console.metrics import exposition
from jobs.clock import database_now


@require_safe
@never_cache
def healthz(_request: HttpRequest) -> HttpResponse:
    """The process answers; what it depends on is the business of readyz."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@never_cache
def readyz(_request: HttpRequest) -> JsonResponse:
    checks = readiness(getattr(settings, "READYZ_OLDEST_TICK", None))
    ready = all(check.ok for check in checks.values())
    lines = {name: {"ok": check.ok, "detail": check.detail} for name, check in checks.items()}
    return JsonResponse({"ready": ready, "checks": lines}, status=200 if ready else 503)


@require_safe
@never_cache
def metrics(_request: HttpRequest) -> HttpResponse:
    try:
        return HttpResponse(exposition(database_now()), content_type=CONTENT_TYPE_LATEST)
    except DatabaseError as error:
        line = f"the database cannot be read ({type(error).__name__})\n"
        return HttpResponse(line, status=503, content_type="text/plain")
