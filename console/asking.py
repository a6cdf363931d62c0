"""Somebody logged in and the reason they typed → who asks, for the audit and for Django's log."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminTextInputWidget  # type: ignore[import-untyped]  # the theme ships no types

from recovery.audit import Asked

LONGEST = 500


class ReasonForm(forms.Form):
    """Without a reason nothing is done."""

    reason = forms.CharField(
        widget=UnfoldAdminTextInputWidget(attrs={"maxlength": LONGEST, "style": "max-width: 32rem"}),
        help_text="Kept in the audit, for whoever wonders later.",
        error_messages={"required": "reason='': expected a few words that say why; nothing was done"},
    )

    def clean_reason(self) -> str:
        reason: str = self.cleaned_data["reason"]
        if len(reason) > LONGEST:
            told = f"reason={reason[:20]!r}…: expected at most {LONGEST} characters, not {len(reason):,}"
            raise ValidationError(f"{told}; nothing was done")
        return reason


def why(request: HttpRequest) -> ReasonForm:
    """Empty before it is asked for; what was typed, and what is wrong with it, afterwards."""
    typed: Any = request.POST if request.method == "POST" else None
    return ReasonForm(typed)


def asked_by(request: HttpRequest, form: ReasonForm) -> Asked:
    """Of a form that is valid."""
    return Asked(by=request.user.get_username(), reason=form.cleaned_data["reason"], user_id=request.user.pk)
