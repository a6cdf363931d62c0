"""What an operator types → fields of a job and of its tasks, as text that `Definition.load` judges.

The forms only read text; what is allowed is said in one place, so that a mistake gets the same words
here as in code, in files and in commands.
"""

from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import (  # type: ignore[import-untyped]  # the theme ships no types
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminRadioSelectWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
    UnfoldBooleanWidget,
)

from jobs.buttons import BACKLOG
from jobs.config import KEYS, TASK_KEYS
from jobs.durations import duration, format_duration
from jobs.fields import CODE, JsonField
from jobs.policy import IMMEDIATE, Update, UpdatePolicy
from jobs.registry import registry

LONGEST_REASON = 500
MOST_TASKS = 100
POLICIES = [
    (Update.IMMEDIATE, "immediate: everything planned follows the new definition"),
    (Update.GRACEFUL, "graceful: the earliest planned occurrence still runs the old way"),
    (Update.WINDOWED, "windowed: only what is planned within the horizon follows the new definition"),
]


class BacklogForm(forms.Form):
    backlog = forms.ChoiceField(
        label="What shall become of the instants skipped meanwhile?",
        choices=list(BACKLOG.items()),
        initial="none",
        widget=UnfoldAdminRadioSelectWidget,
    )


class JobForm(forms.Form):
    """`version` is the one the form was opened with; 0 for a job that does not exist yet."""

    version = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    name = forms.CharField(widget=UnfoldAdminTextInputWidget, help_text="Its id follows from it: it stays.")
    schedule = forms.CharField(
        widget=UnfoldAdminTextInputWidget(attrs=CODE),
        help_text="Chronex, such as TZ=Europe/Berlin 0 2 * * *; others by name, such as posix: 0 2 * * *.",
    )
    # The switch is also a button on the page: only a change made in this form is stored.
    was_enabled = forms.BooleanField(required=False, widget=forms.HiddenInput)
    enabled = forms.BooleanField(required=False, widget=UnfoldBooleanSwitchWidget)
    config = JsonField(label="Configuration", help_text=f"JSON; overrides only: {', '.join(KEYS)}.")
    metadata = JsonField(rows=3, help_text="JSON; texts that reach tasks as ctx.metadata.")
    policy = forms.ChoiceField(
        label="Occurrences already planned",
        choices=POLICIES,
        initial=Update.IMMEDIATE,
        widget=UnfoldAdminRadioSelectWidget,
    )
    horizon = forms.CharField(
        initial=format_duration(IMMEDIATE.horizon),
        widget=UnfoldAdminTextInputWidget,
        help_text="Of the windowed policy, such as 7d.",
    )
    reason = forms.CharField(
        max_length=LONGEST_REASON,
        widget=UnfoldAdminTextInputWidget,
        help_text="Kept with the version, for whoever wonders later.",
    )

    def __init__(self, *args: Any, name: str | None = None, **kwargs: Any) -> None:
        """`name` of a job that exists: it cannot change, and there may be something planned."""
        super().__init__(*args, **kwargs)
        if name is None:
            del self.fields["policy"], self.fields["horizon"]
        else:
            fixed: Any = self.fields["name"]
            fixed.disabled, fixed.strip = True, False
            self.initial["name"] = name

    def clean_horizon(self) -> Any:
        try:
            return duration(self.cleaned_data["horizon"])
        except ValueError as error:
            raise ValidationError(str(error)) from error

    @property
    def switched(self) -> bool:
        return bool(self.cleaned_data["enabled"] != self.cleaned_data["was_enabled"])

    @property
    def update_policy(self) -> UpdatePolicy:
        if "policy" not in self.fields:
            return IMMEDIATE
        return UpdatePolicy(Update(self.cleaned_data["policy"]), self.cleaned_data["horizon"])


def functions() -> list[tuple[str, str]]:
    return [("", "choose a function"), *((name, name) for name in sorted(registry.functions))]


class TaskForm(forms.Form):
    name = forms.CharField(widget=UnfoldAdminTextInputWidget)
    function = forms.ChoiceField(
        choices=functions,
        widget=UnfoldAdminSelectWidget,
        error_messages={"invalid_choice": "function='%(value)s': no code registers it; choose one listed"},
    )
    config = JsonField(
        label="Configuration", rows=4, help_text=f"JSON; overrides only: {', '.join(sorted(TASK_KEYS))}."
    )

    @property
    def lost_function(self) -> str:
        """What is stored and cannot be chosen: no code registers it any more."""
        stored = str(self.initial.get("function") or "")
        return "" if stored in registry.functions else stored


if TYPE_CHECKING:
    Rows = forms.BaseFormSet[TaskForm]
else:
    Rows = forms.BaseFormSet


class TaskRows(Rows):
    def add_fields(self, form: TaskForm, index: int | None) -> None:
        super().add_fields(form, index)
        form.fields["ORDER"].widget = UnfoldAdminIntegerFieldWidget(attrs={"style": "width: 5rem"})
        form.fields["DELETE"].widget = UnfoldBooleanWidget()
        form.fields["DELETE"].label = "Remove"


TaskFormSet = forms.formset_factory(
    TaskForm,
    formset=TaskRows,
    extra=0,
    min_num=1,
    max_num=MOST_TASKS,
    validate_max=True,
    can_order=True,
    can_delete=True,
)
