"""The editor of a job: the form, then what it would change, then the change (JOB-5, JOB-6).

Two operators may edit at once: the form carries the version it was opened with, and `punctual.jobs.store`
refuses a stale one under the row lock. The loser sees what changed meanwhile beside what was typed.
"""

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse

from punctual.console.definitions.change_preview import ChangePreview, preview_change
from punctual.console.definitions.draft import Draft, with_another_task
from punctual.console.definitions.sections import changes_section
from punctual.console.kit.display import Section
from punctual.console.kit.theme import ConsoleAdmin
from punctual.jobs.clock import database_now
from punctual.jobs.definition.comparison import field_changes
from punctual.jobs.definition.document import Definition
from punctual.jobs.errors import DefinitionError, StaleVersionError
from punctual.jobs.models import Job, JobVersion, Origin, Task
from punctual.jobs.store.definitions import Change, store
from punctual.jobs.store.function_permissions import named_permissions, permission_of
from punctual.jobs.store.rows import definition_of

DIGITS = re.compile(r"[0-9]{1,9}")
NEW: dict[str, Any] = {"enabled": True}


def is_editable(request: HttpRequest, job: Job) -> bool:
    """Return whether this user may edit this job here: only definitions made here are changed here."""
    if job.origin != Origin.ADMIN or job.removed or not request.user.has_perm("punctual.change_job"):
        return False
    functions = Task.objects.current().filter(job=job).values_list("function", flat=True)
    return {permission_of(name) for name in functions} - {""} <= permissions_of(request)


def permissions_of(request: HttpRequest) -> set[str]:
    """Those of the user's permissions that functions ask for."""
    return {name for name in named_permissions() if request.user.has_perm(name)}


@dataclass(frozen=True)
class Editor:
    """One request of the editor; `job` is None for a new one. The caller checks permissions."""

    page: ConsoleAdmin[Job]
    request: HttpRequest
    job: Job | None = None

    def respond(self) -> HttpResponse:
        posted = self.request.POST
        if self.request.method != "POST":
            return self._form(self._opened())
        if "_more" in posted:
            return self._form(self._posted(with_another_task(posted)), quiet=True)
        if "_back" in posted:
            return self._form(self._posted(posted))
        return self._judge(self._posted(posted), database_now())

    def _judge(self, draft: Draft, now: datetime) -> HttpResponse:
        definition = draft.definition(now)
        if definition is None:
            return self._form(draft)
        if self.job is None and Job.objects.filter(name=definition.name).exists():
            return self._taken(draft, definition)
        if self.job is not None and draft.version != self.job.version:
            return self._stale(self.job, definition, draft.version)
        if "_confirm" in self.request.POST:
            return self._save(draft, definition, now)
        return self._confirm(draft, definition, now)

    def _save(self, draft: Draft, definition: Definition, now: datetime) -> HttpResponse:
        author = self.request.user.get_username()
        policy, permissions = draft.policy, permissions_of(self.request)
        change = Change(Origin.ADMIN, author, now, draft.reason, policy, permissions)
        before = self._stored()
        try:
            with transaction.atomic():
                store([definition], change, expected={definition.name: draft.version})
                job = Job.objects.get(name=definition.name)
                self._check_ours(job, now)
                self._log(job, before, draft.reason)
        except StaleVersionError:  # another editor committed between the check above and the lock
            return self._late(draft, definition)
        except DefinitionError as error:
            draft.form.add_error(None, str(error))
            return self._form(draft)
        done = "changed" if self.job else "added"
        message = f"“{job.name}” is {done}: version {job.version}."
        self.page.message_user(self.request, message, messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:punctual_job_change", args=[job.pk]))

    def _check_ours(self, job: Job, now: datetime) -> None:
        # Two requests that add the same name both find no row to lock. The loser's insert waits for the
        # winner's and then does nothing; its tasks must not be written into the winner's job.
        if self.job is None and job.created_at != now:
            raise StaleVersionError(job.name, expected=0, actual=job.version)

    def _log(self, job: Job, before: dict[str, Any] | None, reason: str) -> None:
        if before is None:
            self.page.log_addition(self.request, job, f"Added, version {job.version}: {reason}")
            return
        fields = ", ".join(one.field for one in field_changes(before, stored_definition(job)))
        self.page.log_change(self.request, job, f"Changed {fields}; version {job.version}: {reason}")

    def _late(self, draft: Draft, definition: Definition) -> HttpResponse:
        if self.job is None:
            return self._taken(draft, definition)
        return self._stale(Job.objects.get(pk=self.job.pk), definition, draft.version)

    def _taken(self, draft: Draft, definition: Definition) -> HttpResponse:
        draft.form.add_error("name", f"name={definition.name!r}: there is a job of this name already")
        return self._form(draft)

    def _stale(self, job: Job, definition: Definition, opened: int) -> HttpResponse:
        """Show what was typed again, as an edit of the version that is stored now."""
        typed = self.request.POST.copy()
        typed["version"] = str(job.version)
        now_stored = stored_definition(job)
        versions = {row.number: row for row in job.versions.filter(number__in=[opened, job.version])}
        unsaved = resolve_enabled(definition, job).to_json()
        tables = [changes_section("What your form would change now", field_changes(now_stored, unsaved))]
        if opened in versions:
            meanwhile = field_changes(versions[opened].after, now_stored)
            tables.insert(0, changes_section("Changed since you opened the form", meanwhile))
        stale = StaleVersionError(job.name, expected=opened, actual=job.version)
        return self._form(self._posted(typed), stale=stale, latest=versions.get(job.version), tables=tables)

    def _confirm(self, draft: Draft, definition: Definition, now: datetime) -> HttpResponse:
        after = resolve_enabled(definition, self.job)
        changed = field_changes(self._stored(), after.to_json())
        if not changed:
            draft.form.add_error(None, "Nothing is changed: this is the definition that is stored.")
            return self._form(draft)
        preview = preview_change(after, self.job, changed, policy=draft.policy, now=now)
        if preview.summary.problem:
            draft.form.add_error("schedule", preview.summary.problem)
            return self._form(draft)
        return self._confirmation(draft, preview)

    def _confirmation(self, draft: Draft, preview: ChangePreview) -> HttpResponse:
        typed = draft.form.cleaned_data["schedule"]
        context = {
            "preview": preview,
            "relative": typed if typed != preview.schedule else "",
            "reason": draft.reason,
            "policy": draft.policy.kind,
            "posted": hidden_inputs(self.request.POST),
        }
        return self._page("punctual_console/definitions/confirm_change.html", "Confirm", context)

    def _form(
        self,
        draft: Draft,
        *,
        quiet: bool = False,
        stale: StaleVersionError | None = None,
        latest: JobVersion | None = None,
        tables: list[Section] | None = None,
    ) -> HttpResponse:
        context = {"draft": draft, "quiet": quiet, "stale": stale, "latest": latest, "tables": tables or []}
        return self._page(
            "punctual_console/definitions/editor.html", "Edit" if self.job else "Add job", context
        )

    def _page(self, template: str, title: str, context: dict[str, Any]) -> HttpResponse:
        heading = {"title": f"{title}: {self.job.name}" if self.job else title}
        return render_job_page(self.page, self.request, self.job, template, heading | context)

    def _opened(self) -> Draft:
        if self.job is None:
            permissions = permissions_of(self.request)
            return Draft.from_definition(NEW, version=0, name=None, permissions=permissions, was_enabled=True)
        start, reason = stored_definition(self.job), ""
        if number := self.request.GET.get("restore", ""):
            start, reason = {**start, **version_to_restore(self.job, number)}, f"Restore version {number}"
        return Draft.from_definition(
            start,
            version=self.job.version,
            name=self.job.name,
            permissions=permissions_of(self.request),
            was_enabled=self.job.enabled,
            reason=reason,
        )

    def _posted(self, data: QueryDict) -> Draft:
        name = self.job.name if self.job else None
        return Draft.from_post(data, name=name, permissions=permissions_of(self.request))

    def _stored(self) -> dict[str, Any] | None:
        return stored_definition(self.job) if self.job else None


def stored_definition(job: Job) -> dict[str, Any]:
    return definition_of(job, job.tasks.all()).to_json()


def version_to_restore(job: Job, text: str) -> dict[str, Any]:
    number = int(text) if DIGITS.fullmatch(text) else 0
    version = get_object_or_404(JobVersion, job=job, number=number)
    return version.after if isinstance(version.after, dict) else {}


def resolve_enabled(definition: Definition, job: Job | None) -> Definition:
    """Return the definition with `enabled` as it would be stored."""
    if definition.enabled is not None:
        return definition
    return replace(definition, enabled=job.enabled if job else True)


def hidden_inputs(posted: QueryDict) -> list[tuple[str, str]]:
    """Return everything typed except the buttons, for the confirmation page to post again."""
    pairs = [(key, value) for key, values in posted.lists() for value in values]
    return [(key, value) for key, value in pairs if key != "csrfmiddlewaretoken" and key[0] != "_"]


def render_job_page(
    page: ConsoleAdmin[Job], request: HttpRequest, job: Job | None, template: str, context: dict[str, Any]
) -> HttpResponse:
    site_context = {
        **page.admin_site.each_context(request),
        "opts": Job._meta,
        "original": job,
        "media": page.media,
    }
    return TemplateResponse(request, template, site_context | context)
