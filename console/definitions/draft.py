"""The forms of the editor, and the checked definition they describe.

Nothing typed is lost: a draft that is wrong or stale is shown again exactly as it was posted.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.http import QueryDict

from punctual.console.definitions.editor_forms import JobForm, TaskFormSet
from punctual.jobs.condition import unresolved_hooks
from punctual.jobs.config.cascade import platform
from punctual.jobs.definition.document import Definition
from punctual.jobs.errors import DefinitionError
from punctual.jobs.job_schedule import make_absolute
from punctual.jobs.store.update_policy import UpdatePolicy

TASKS = "tasks"
FIELDS = ("name", "schedule", "config", "metadata")
TOTAL = f"{TASKS}-TOTAL_FORMS"
Json = Mapping[str, Any]
Permissions = Collection[str]  # of the user, that functions ask for


class Draft:
    """The forms of one job and its tasks; `problem` is what is wrong with the tasks as a whole."""

    def __init__(self, form: JobForm, tasks: Any) -> None:
        self.form, self.tasks = form, tasks
        self.problem = ""

    @classmethod
    def from_definition(
        cls, start: Json, *, version: int, name: str | None, permissions: Permissions, **initial: object
    ) -> "Draft":
        """Fill the forms from a definition as JSON; `initial` replaces single fields of it."""
        fields = {key: start.get(key) for key in (*FIELDS, "enabled")}
        steps = start.get("tasks")
        rows = [dict(task) for task in steps if isinstance(task, Mapping)] if isinstance(steps, list) else []
        form = JobForm(initial={**fields, "version": version, **initial}, name=name)
        return cls(form, TaskFormSet(initial=rows, prefix=TASKS, form_kwargs={"permissions": permissions}))

    @classmethod
    def from_post(cls, data: QueryDict, *, name: str | None, permissions: Permissions) -> "Draft":
        tasks = TaskFormSet(data, prefix=TASKS, form_kwargs={"permissions": permissions})
        return cls(JobForm(data, name=name), tasks)

    @property
    def version(self) -> int:
        return int(self.form.cleaned_data["version"])

    @property
    def reason(self) -> str:
        return str(self.form.cleaned_data["reason"])

    @property
    def policy(self) -> UpdatePolicy:
        return self.form.update_policy

    def definition(self, now: datetime) -> Definition | None:
        """Return the checked definition, or None with the errors added to the forms."""
        is_complete = all([self.form.is_valid(), self.tasks.is_valid()])
        if not self._can_be_checked():
            return None
        try:
            definition = Definition.load(self._as_json())
        except DefinitionError as error:
            self._add_error(error)
            return None
        unresolved = unresolved_hooks(definition.config)
        for problem in unresolved:
            self._add_error(problem)
        if not is_complete or unresolved:
            return None
        zone = {**platform(), **definition.config}.get("timezone")
        schedule = make_absolute(definition.schedule, timezone=zone, now=now)
        return replace(definition, schedule=schedule)

    def _can_be_checked(self) -> bool:
        """Return whether the definition itself is complete: a missing reason must not hide other mistakes."""
        return self.tasks.is_valid() and set(FIELDS) <= set(self.form.cleaned_data)

    def _as_json(self) -> dict[str, Any]:
        values = self.form.cleaned_data
        enabled = {"enabled": values["enabled"]} if self.form.switched else {}
        tasks = [_task_as_json(row.cleaned_data) for row in self.tasks.ordered_forms]
        fields = {field: values[field] for field in FIELDS}
        return {**fields, **enabled, "tasks": tasks}

    def _add_error(self, error: DefinitionError) -> None:
        """Show the message beside the field it is about."""
        job = self.form.cleaned_data["name"]
        in_a_task = error.owner.startswith(f"{job}/")
        task = error.value if error.field == "task" else error.owner.removeprefix(f"{job}/")
        if error.field == "tasks":
            self.problem = str(error)
        elif error.field == "task" or in_a_task:
            self._add_task_error(task, error)
        else:
            self.form.add_error(error.field if error.field in self.form.fields else "config", str(error))

    def _add_task_error(self, name: object, error: DefinitionError) -> None:
        *_, row = (row for row in self.tasks.ordered_forms if row.cleaned_data["name"] == name)
        field = {"task": "name", "function": "function"}.get(error.field, "config")
        row.add_error(field, str(error))


def _task_as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    return {field: values[field] for field in ("name", "function", "config")}


def with_another_task(data: QueryDict) -> QueryDict:
    """Return the posted form with one more empty row for a task."""
    longer = data.copy()
    count = longer.get(TOTAL, "0")
    longer[TOTAL] = str(int(count) + 1) if count.isdigit() else "1"
    return longer
