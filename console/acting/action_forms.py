"""Build the forms of an action from its parameters."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import (  # type: ignore[import-untyped]  # the theme ships no types
    UnfoldAdminRadioSelectWidget,
    UnfoldAdminTextInputWidget,
)

from punctual.console.acting.instant_field import InstantField, clock_text
from punctual.operations.action import Parameter, ParameterKind

MAX_REASON_LENGTH = 500
MAX_TEXT_LENGTH = 200
Data = Mapping[str, Any] | None


class ChoiceField(forms.ChoiceField):
    """A choice that may be left out: then it is the default."""

    def __init__(self, parameter: Parameter, default: str) -> None:
        self.default = default
        allowed = ", ".join(parameter.choices)
        super().__init__(
            label=parameter.label,
            choices=list(parameter.choices.items()),
            initial=default,
            required=False,
            widget=UnfoldAdminRadioSelectWidget,
            error_messages={"invalid_choice": f"{parameter.name}='%(value)s': expected one of {allowed}"},
        )

    def clean(self, value: Any) -> Any:
        return super().clean(value) or self.default


class ReasonField(forms.CharField):
    def __init__(self, *, required: bool) -> None:
        super().__init__(
            required=required,
            widget=UnfoldAdminTextInputWidget(
                attrs={"maxlength": MAX_REASON_LENGTH, "style": "max-width: 32rem"}
            ),
            help_text="Kept in the audit.",
            error_messages={"required": "Please give a reason. Nothing was done."},
        )

    def validate(self, value: Any) -> None:
        super().validate(value)
        if len(value) > MAX_REASON_LENGTH:
            problem = f"expected at most {MAX_REASON_LENGTH} characters, not {len(value):,}"
            raise ValidationError(f"reason={value[:20]!r}…: {problem}. Nothing was done.")


def parameter_form(
    parameters: Iterable[Parameter],
    *,
    zone: ZoneInfo | None,
    now: datetime,
    data: Data,
    reason: ReasonField | None = None,
) -> forms.Form:
    """A form with one field for each parameter; times are typed on the clock of `zone`."""
    form = forms.Form(data)
    for parameter in parameters:
        form.fields[parameter.name] = field_of(parameter, zone, now)
        start = parameter.default(now)
        if isinstance(start, datetime) and not parameter.pinned:
            form.initial[parameter.name] = clock_text(start, zone)
    if reason is not None:
        form.fields["reason"] = reason
    return form


def field_of(parameter: Parameter, zone: ZoneInfo | None, now: datetime) -> forms.Field:
    if parameter.pinned:
        return _hidden_field(parameter)
    if parameter.kind is ParameterKind.CHOICE:
        return ChoiceField(parameter, parameter.default(now))
    return InstantField(parameter.label, zone, last=parameter.ends_range, optional=parameter.optional)


def _hidden_field(parameter: Parameter) -> forms.Field:
    if parameter.kind is ParameterKind.INSTANT:
        return forms.DateTimeField(required=False, widget=forms.HiddenInput)
    return forms.CharField(required=False, max_length=MAX_TEXT_LENGTH, widget=forms.HiddenInput)


def hidden_values(
    parameters: Iterable[Parameter], values: Mapping[str, Any], now: datetime
) -> list[tuple[str, str]]:
    """What the confirmation posts: the previewed values, exact, and the pinned ones of this preview."""
    current = [(one.name, one.default(now) if one.pinned else values[one.name]) for one in parameters]
    return [
        (name, value.isoformat() if isinstance(value, datetime) else str(value)) for name, value in current
    ]
