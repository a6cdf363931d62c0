"""A posted editor, or a definition to start from → the forms, and the checked definition they spell.

Nothing typed is ever lost: a draft that is wrong or late is shown again exactly as it was posted.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.http import QueryDict

from jobs.definition import Definition
from jobs.errors import DefinitionError
from jobs.forms import JobForm, TaskFormSet
from jobs.policy import UpdatePolicy
from jobs.scheduling import platform
from jobs.timing import absolute

TASKS = "tasks"
FIELDS = ("name", "schedule", "config", "metadata")
TOTAL = f"{TASKS}-TOTAL_FORMS"
Json = Mapping[str, Any]


class Draft:
    """`problem` is what is wrong with the tasks as a whole."""

    def __init__(self, form: JobForm, tasks: Any) -> None:
        self.form, self.tasks = form, tasks
        self.problem = ""

    @classmethod
    def opened(cls, start: Json, *, version: int, name: str | None, **initial: object) -> "Draft":
        """`start` is a definition as JSON; `initial` replaces single fields of it."""
        fields = {key: start.get(key) for key in (*FIELDS, "enabled")}
        steps = start.get("tasks")
        rows = [dict(task) for task in steps if isinstance(task, Mapping)] if isinstance(steps, list) else []
        form = JobForm(initial={**fields, "version": version, **initial}, name=name)
        return cls(form, TaskFormSet(initial=rows, prefix=TASKS))

    @classmethod
    def posted(cls, data: QueryDict, *, name: str | None) -> "Draft":
        return cls(JobForm(data, name=name), TaskFormSet(data, prefix=TASKS))

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
        """None when something is wrong; then the forms say what."""
        is_complete = all([self.form.is_valid(), self.tasks.is_valid()])
        if not self._is_spelled():
            return None
        try:
            found = Definition.load(self._spelled())
        except DefinitionError as error:
            self._blame(error)
            return None
        if not is_complete:
            return None
        zone = {**platform(), **found.config}.get("timezone")
        return replace(found, schedule=absolute(found.schedule, timezone=zone, now=now))

    def _is_spelled(self) -> bool:
        """Enough to judge the definition, so that a missing reason does not hide what else is wrong."""
        return self.tasks.is_valid() and set(FIELDS) <= set(self.form.cleaned_data)

    def _spelled(self) -> dict[str, Any]:
        typed = self.form.cleaned_data
        switched = {"enabled": typed["enabled"]} if self.form.switched else {}
        tasks = [_step(row.cleaned_data) for row in self.tasks.ordered_forms]
        plain = {field: typed[field] for field in FIELDS}
        return {**plain, **switched, "tasks": tasks}

    def _blame(self, error: DefinitionError) -> None:
        """Put the message beside what was typed wrong."""
        job = self.form.cleaned_data["name"]
        in_a_task = error.owner.startswith(f"{job}/")
        task = error.value if error.field == "task" else error.owner.removeprefix(f"{job}/")
        if error.field == "tasks":
            self.problem = str(error)
        elif error.field == "task" or in_a_task:
            self._blame_task(task, error)
        else:
            self.form.add_error(error.field if error.field in self.form.fields else "config", str(error))

    def _blame_task(self, name: object, error: DefinitionError) -> None:
        *_, row = (row for row in self.tasks.ordered_forms if row.cleaned_data["name"] == name)
        field = {"task": "name", "function": "function"}.get(error.field, "config")
        row.add_error(field, str(error))


def _step(typed: Mapping[str, Any]) -> dict[str, Any]:
    return {field: typed[field] for field in ("name", "function", "config")}


def with_another_task(data: QueryDict) -> QueryDict:
    """The same posted form with one more empty row."""
    longer = data.copy()
    count = longer.get(TOTAL, "0")
    longer[TOTAL] = str(int(count) + 1) if count.isdigit() else "1"
    return longer
