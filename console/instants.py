"""A date and a time as typed → an instant; a refusal names the field, the value and what is allowed."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import UnfoldAdminTextInputWidget  # type: ignore[import-untyped]  # the theme ships no types

PICKER = {"type": "datetime-local", "step": "1", "style": "max-width: 20rem"}
EXPECTED = "expected a date and a time such as 2026-01-05T12:00"


class InstantField(forms.CharField):
    """On the job's own clock, unless an offset is given. `last`: of an hour that comes twice, the second."""

    def __init__(self, name: str, zone: ZoneInfo | None, *, last: bool = False) -> None:
        self.name, self.zone, self.fold = name, zone or ZoneInfo("UTC"), int(last)
        told = f"On the job's clock, {self.zone.key}; both ends are included."
        super().__init__(
            label=name.capitalize(), widget=UnfoldAdminTextInputWidget(attrs=PICKER), help_text=told
        )

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        try:
            return self._instant(datetime.fromisoformat(text), text)
        except (ValueError, OverflowError):
            raise ValidationError(f"{self.name}={text!r}: {EXPECTED}") from None

    def _instant(self, typed: datetime, text: str) -> datetime:
        if typed.tzinfo is not None:
            return typed.astimezone(UTC)
        found = typed.replace(tzinfo=self.zone, fold=self.fold)
        if found.astimezone(UTC).astimezone(self.zone).replace(tzinfo=None) != typed:
            missing = f"no such time in {self.zone.key}: clocks were put forward; choose one before or after"
            raise ValidationError(f"{self.name}={text!r}: {missing}")
        # With its offset, as messages repeat it; two instants of one zone would be compared by their clocks.
        return found.replace(tzinfo=timezone(found.utcoffset() or timedelta()))

    def validate(self, value: Any) -> None:
        if value is None:
            raise ValidationError(f"{self.name}='': {EXPECTED}")


def typed(instant: datetime, zone: ZoneInfo | None) -> str:
    """An instant as the picker shows it, to the minute."""
    return f"{instant.astimezone(zone or UTC):%Y-%m-%dT%H:%M}"
