"""Fields of the editor: of a job, of its tasks, of the change itself.

The forms only read text; `Definition.load` decides what is allowed, so that a mistake gets the same message
here as in code, in files and in commands.
"""

import json
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import (  # type: ignore[import-untyped]  # the theme ships no types
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminRadioSelectWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
    UnfoldBooleanWidget,
)

from punctual.jobs.config.bounded_duration import duration, format_duration
from punctual.jobs.config.choices import Update
from punctual.jobs.config.keys import KEYS, TASK_KEYS
from punctual.jobs.declaration.registry import registry
from punctual.jobs.store.update_policy import IMMEDIATE, UpdatePolicy

NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
CODE = {"spellcheck": "false", "style": "font-family: ui-monospace, monospace"}
MAX_REASON = 500
MAX_TASKS = 100
POLICIES = [
    (Update.IMMEDIATE, "immediate: everything planned follows the new definition"),
    (Update.GRACEFUL, "graceful: the earliest planned occurrence still runs the old way"),
    (Update.WINDOWED, "windowed: only what is planned within the horizon follows the new definition"),
]


class JsonField(forms.CharField):
    """A JSON object as text. An error names line and column; what was typed is shown again unchanged."""

    def __init__(self, **options: Any) -> None:
        attrs = {"rows": options.pop("rows", 6), **CODE}
        super().__init__(required=False, widget=UnfoldAdminTextareaWidget(attrs=attrs), **options)

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else json.dumps(value or {}, indent=2, ensure_ascii=False)

    def to_python(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value or {}
        try:
            return _storable(json.loads(value if value.strip() else "{}", parse_constant=_refuse))
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            raise ValidationError(f"not JSON: {error.msg} ({where})") from error
        except ValueError as error:
            raise ValidationError(f"not JSON: {error}") from error
        except RecursionError:
            raise ValidationError("not JSON: nested too deeply") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _storable(value: Any) -> Any:
    """Refuse characters that JSON can express and no database can store."""
    text = json.dumps(value, ensure_ascii=False)
    text.encode()  # UnicodeEncodeError, a ValueError, names the lone surrogate
    if NUL.search(text):
        raise ValueError("the character \\u0000 cannot be stored")
    return value


class JobForm(forms.Form):
    """`version` is the one the form was opened with; 0 for a new job."""

    version = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    name = forms.CharField(widget=UnfoldAdminTextInputWidget, help_text="The name cannot be changed later.")
    schedule = forms.CharField(
        widget=UnfoldAdminTextInputWidget(attrs=CODE),
        help_text="Chronex, such as TZ=Europe/Berlin 0 2 * * *; others by name, such as posix: 0 2 * * *.",
    )
    # The page has a button for it as well: only a change made in this form is stored.
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
        max_length=MAX_REASON,
        widget=UnfoldAdminTextInputWidget,
        help_text="Stored with the version.",
    )

    def __init__(self, *args: Any, name: str | None = None, **kwargs: Any) -> None:
        """`name` is that of an existing job: it cannot change, and occurrences may be planned."""
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


def function_choices(permissions: Collection[str]) -> list[tuple[str, str]]:
    """The functions that a user with these permissions may use."""
    functions = sorted(registry.functions.items())
    names = [name for name, item in functions if not item.permission or item.permission in permissions]
    return [("", "choose a function"), *((name, name) for name in names)]


class TaskForm(forms.Form):
    name = forms.CharField(widget=UnfoldAdminTextInputWidget)
    function = forms.ChoiceField(
        widget=UnfoldAdminSelectWidget,
        error_messages={
            "invalid_choice": "function='%(value)s': no code registers it, or you may not use it"
        },
    )
    config = JsonField(
        label="Configuration", rows=4, help_text=f"JSON; overrides only: {', '.join(sorted(TASK_KEYS))}."
    )

    def __init__(self, *args: Any, permissions: Collection[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        functions: Any = self.fields["function"]
        functions.choices = function_choices(permissions)

    @property
    def lost_function(self) -> str:
        """Return the stored function if it cannot be chosen, and why."""
        stored = str(self.initial.get("function") or "")
        function, offered = registry.function(stored), dict(self.fields["function"].choices)  # type: ignore[attr-defined]
        if stored in offered:
            return ""
        return f"{stored}: " + (f"it needs {function.permission}" if function else "no code registers it")


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
    max_num=MAX_TASKS,
    validate_max=True,
    can_order=True,
    can_delete=True,
)
