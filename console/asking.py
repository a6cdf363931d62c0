"""Somebody logged in and the reason they typed → who asks, for the audit and for Django's log."""

from django.http import HttpRequest

from recovery.audit import Asked


def asked_by(request: HttpRequest) -> Asked:
    reason = request.POST.get("reason", "").strip()
    return Asked(by=request.user.get_username(), reason=reason, user_id=request.user.pk)
