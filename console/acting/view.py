"""Answer requests for actions: preview on GET, execute on POST.

A preview changes nothing. The confirmation posts what the preview was computed with, so that the action does
what the operator saw.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
)
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from punctual.console.acting.action_forms import ReasonField, hidden_values, parameter_form
from punctual.console.acting.admin_log import requester_of
from punctual.console.acting.presentation import render_facts, render_tables, show_result
from punctual.console.acting.targets import RequestTarget
from punctual.jobs.clock import database_now
from punctual.jobs.errors import DefinitionError, PunctualError
from punctual.operations.action import Action, Call, Parameter, Preview
from punctual.operations.action_registry import find_action
from punctual.schedules import ScheduleError


@require_http_methods(["GET", "HEAD", "POST"])
def act(request: HttpRequest, name: str, target: type[Any], **ids: Any) -> HttpResponse:
    action = find_action(target.scope, name)
    if action is None or not (target.single or action.many):
        raise Http404(f"no action {name!r}")
    if not request.user.has_perm(action.permission):
        raise PermissionDenied
    now = database_now()
    return ActionRequest(request, action, target.read(request, now, **ids), now).respond()


@dataclass(frozen=True)
class ActionRequest:
    request: HttpRequest
    action: Action[Any]
    target: RequestTarget
    now: datetime

    def respond(self) -> HttpResponse:
        posted = self.request.method == "POST"
        if refusal := self.target.refusal(self.action):
            messages.error(self.request, refusal)
            return HttpResponseRedirect(self.target.back_url)
        preview_form, confirm_form = self._preview_form(), self._confirm_form()
        if posted and preview_form.is_valid() and confirm_form.is_valid():
            values = {**preview_form.cleaned_data, **confirm_form.cleaned_data}
            return self._execute(values, values.get("reason", ""))
        return self._page(preview_form, confirm_form)

    def _parameters(self, *, in_preview: bool) -> list[Parameter]:
        """A list of jobs has no page to choose parameters on: the defaults hold."""
        if not self.target.single:
            return []
        return [one for one in self.action.parameters if one.in_preview is in_preview]

    def _preview_form(self) -> forms.Form:
        parameters, data = self._parameters(in_preview=True), self.request.POST
        if self.request.method != "POST":
            # Nothing is chosen yet: the form is shown with its defaults, and there is no preview.
            visible = any(not one.pinned for one in parameters)
            data = self.request.GET if self.request.GET or not visible else None  # type: ignore[assignment]
        return parameter_form(parameters, zone=self.target.zone, now=self.now, data=data)

    def _confirm_form(self) -> forms.Form:
        return parameter_form(
            self._parameters(in_preview=False),
            zone=self.target.zone,
            now=self.now,
            data=self.request.POST if self.request.method == "POST" else None,
            reason=ReasonField(required=self.action.needs_reason),
        )

    def _call(self, values: dict[str, Any]) -> Call[Any]:
        return Call(self.target.value, self.now, values, limit=self.action.limit)

    def _execute(self, values: dict[str, Any], reason: str) -> HttpResponse:
        try:
            result = self.action.execute(self._call(values), requester_of(self.request, reason))
        except (PunctualError, ScheduleError) as error:
            messages.error(self.request, f"{self.action.label}: {error}")
            return HttpResponseRedirect(self.target.back_url)
        show_result(self.request, result, self.target.created_link(result))
        return HttpResponseRedirect(self.target.next_url(result))

    def _preview(self, form: forms.Form) -> Preview | None:
        """What cannot be done is an error of the field it is about."""
        if not (form.is_bound and form.is_valid()):
            return None
        try:
            return self.action.preview(self._call(form.cleaned_data))
        except DefinitionError as error:
            names = {one.label: one.name for one in self._parameters(in_preview=True)}
            form.add_error(names.get(error.field), str(error))
        except (PunctualError, ScheduleError) as error:
            form.add_error(None, str(error))
        return None

    def _page(self, preview_form: forms.Form, confirm_form: forms.Form) -> HttpResponse:
        preview = self._preview(preview_form)
        context = {
            **admin.site.each_context(self.request),
            "title": self.target.title(self.action),
            "action": self.action,
            "preview": preview,
            "preview_form": preview_form,
            "confirm_form": confirm_form,
            "back_url": self.target.back_url,
        }
        if preview is not None:
            zone, parameters = self.target.zone, self._parameters(in_preview=True)
            context |= {
                "facts": render_facts(list(dict([*self.target.facts(), *preview.facts]).items()), zone),
                "sections": render_tables(preview.tables, zone),
                "hidden_values": [
                    *self.target.hidden_values(self.action),
                    *hidden_values(parameters, preview_form.cleaned_data, self.now),
                ],
            }
        return render(self.request, "punctual_console/acting/action.html", context)
