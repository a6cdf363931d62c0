"""A template and its facts → a page of the admin about one job, or about one that is not there yet."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from jobs.models import Job
from jobs.theme import PlainAdmin


def rendered(
    page: PlainAdmin[Job], request: HttpRequest, job: Job | None, template: str, context: dict[str, Any]
) -> HttpResponse:
    everywhere = {
        **page.admin_site.each_context(request),
        "opts": Job._meta,
        "original": job,
        "media": page.media,
    }
    return TemplateResponse(request, template, everywhere | context)
