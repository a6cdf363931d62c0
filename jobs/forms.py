"""What an operator types into a job's page → checked fields, by the rules that code obeys."""

from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.forms import ModelForm

import schedules
from jobs.config import normalized
from jobs.errors import DefinitionError
from jobs.models import Job

if TYPE_CHECKING:
    JobModelForm = ModelForm[Job]
else:
    JobModelForm = ModelForm


class JobForm(JobModelForm):
    def clean_config(self) -> dict[str, Any]:
        overrides = self.cleaned_data["config"]
        if not isinstance(overrides, dict):
            raise ValidationError("expected an object such as {}")
        try:
            return normalized(overrides, owner=self.instance.name)
        except DefinitionError as error:
            raise ValidationError(str(error)) from error

    def clean(self) -> dict[str, Any]:
        """The zone of the configuration counts, so the schedule is checked last."""
        fields: dict[str, Any] = super().clean() or self.cleaned_data
        if "schedule" in fields and "config" in fields:
            self._check_schedule(fields["schedule"], fields["config"].get("timezone"))
        return fields

    def _check_schedule(self, text: str, timezone: str | None) -> None:
        try:
            schedules.parse(text, reference=self.instance.created_at, timezone=timezone)
        except schedules.ScheduleError as error:
            self.add_error("schedule", str(error))
