"""List the actions a page offers: those that make sense now and that the user may take."""

from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode

from punctual.console.ledger.dead_letter_query import query_of
from punctual.jobs.models import Job
from punctual.occurrences.models import Occurrence
from punctual.operations.action import Action, Scope
from punctual.operations.action_registry import actions_of
from punctual.recovery.dead_letters import DeadLetterFilter


@dataclass(frozen=True)
class Button:
    """Leads to the preview of an action."""

    label: str
    url: str


def job_buttons(job: Job, user: Any) -> list[Button]:
    return [
        Button(one.label, reverse("punctual_console:act_on_job", args=[job.pk, one.name]))
        for one in _allowed(Scope.JOBS, user)
        if one.available(job)
    ]


def occurrence_buttons(occurrence: Occurrence, user: Any) -> list[Button]:
    return [
        Button(one.label, reverse("punctual_console:act_on_occurrence", args=[occurrence.pk, one.name]))
        for one in _allowed(Scope.OCCURRENCES, user)
        if one.available(occurrence)
    ]


def dead_letter_buttons(which: DeadLetterFilter, user: Any) -> list[Button]:
    return [Button(one.label, dead_letter_url(one.name, which)) for one in _allowed(Scope.DEAD_LETTERS, user)]


def dead_letter_url(name: str, which: DeadLetterFilter) -> str:
    return f"{reverse('punctual_console:act_on_dead_letters', args=[name])}?{urlencode(query_of(which))}"


def _allowed(scope: Scope, user: Any) -> list[Action[Any]]:
    return [action for action in actions_of(scope) if user.has_perm(action.permission)]
