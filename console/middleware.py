"""Refuse requests with a NUL character, and send a Content-Security-Policy with every answer (OPS-7)."""

from collections.abc import Callable
from urllib.parse import unquote

from django.http import HttpRequest, HttpResponseBadRequest, HttpResponseBase

NUL = "\0"
POLICY_HEADER = "Content-Security-Policy"
POLICY = "; ".join(
    (
        "default-src 'self'",
        # No inline script runs. Alpine, which the admin theme uses, compiles the attributes of its elements
        # with the Function constructor: 'unsafe-eval' can go when the theme goes.
        "script-src 'self' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",  # charts and the theme set style attributes
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
Answer = Callable[[HttpRequest], HttpResponseBase]


class RefuseNulMiddleware:
    """Answer 400 to a NUL in the path or the query: no database can compare text with it.

    The fields of Django's forms refuse it in what is posted.
    """

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if NUL in request.path or NUL in unquote(request.META.get("QUERY_STRING", "")):
            return HttpResponseBadRequest(
                "The address contains a NUL character (%00).\n", content_type="text/plain"
            )
        return self.get_response(request)


class ContentSecurityPolicyMiddleware:
    """Add the policy to every answer that has none."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault(POLICY_HEADER, POLICY)
        return response
