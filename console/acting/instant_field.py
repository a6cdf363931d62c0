"""Read an instant that an operator typed as a date and a time."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import UnfoldAdminTextInputWidget  # type: ignore[import-untyped]  # the theme ships no types

PICKER = {"type": "datetime-local", "step": "1", "style": "max-width: 20rem"}
EXPECTED = "expected a date and a time such as 2026-01-05T12:00"


class InstantField(forms.CharField):
    """A time on the clock of `zone`, unless it has an offset.

    Of an hour that occurs twice, the first is meant; with `last`, the second.
    """

    def __init__(
        self, name: str, zone: ZoneInfo | None, *, last: bool = False, optional: bool = False
    ) -> None:
        self.name, self.zone, self.fold = name, zone or ZoneInfo("UTC"), int(last)
        meaning = "it may be left empty" if optional else "both ends are included"
        super().__init__(
            label=name.capitalize(),
            widget=UnfoldAdminTextInputWidget(attrs=PICKER),
            help_text=f"On the job's clock, {self.zone.key}; {meaning}.",
            required=not optional,
        )

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        try:
            return self._instant(datetime.fromisoformat(text), text)
        except (ValueError, OverflowError):
            raise ValidationError(f"{self.name}={text!r}: {EXPECTED}") from None

    def _instant(self, clock: datetime, text: str) -> datetime:
        if clock.tzinfo is not None:
            return clock.astimezone(UTC)
        local = clock.replace(tzinfo=self.zone, fold=self.fold)
        if local.astimezone(UTC).astimezone(self.zone).replace(tzinfo=None) != clock:
            missing = f"no such time in {self.zone.key}: clocks were put forward; choose one before or after"
            raise ValidationError(f"{self.name}={text!r}: {missing}")
        # Python compares two times of one zone by their clocks; with fixed offsets it compares instants.
        return local.replace(tzinfo=timezone(local.utcoffset() or timedelta()))

    def validate(self, value: Any) -> None:
        if value is None and self.required:
            raise ValidationError(f"{self.name}='': {EXPECTED}")


def clock_text(instant: datetime, zone: ZoneInfo | None) -> str:
    """Format an instant as the picker shows it, to the minute."""
    return f"{instant.astimezone(zone or UTC):%Y-%m-%dT%H:%M}"
