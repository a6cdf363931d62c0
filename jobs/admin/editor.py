"""A request for a job's editor → the form, then what it would change, then the change (JOB-5, JOB-6).

Two editors at once: the version the form was opened with travels with it, and `jobs.store` refuses a
stale one under the row's lock. The loser sees what changed meanwhile beside what they typed.
"""

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import get_object_or_404
from django.urls import reverse

from jobs.admin.preview import Preview, preview
from jobs.admin.rendering import rendered
from jobs.admin.sections import changes_section
from jobs.changes import changes
from jobs.clock import database_now
from jobs.definition import Definition
from jobs.display import Section
from jobs.draft import Draft, with_another_task
from jobs.errors import DefinitionError, StaleVersionError
from jobs.models import Job, JobVersion, Origin
from jobs.store import Change, definition_of, store
from jobs.theme import PlainAdmin

DIGITS = re.compile(r"[0-9]{1,9}")
NEW: dict[str, Any] = {"enabled": True}


def editable(request: HttpRequest, job: Job) -> bool:
    """A definition has one owner; only what was made here is changed here."""
    return job.origin == Origin.ADMIN and not job.removed and request.user.has_perm("jobs.change_job")


@dataclass(frozen=True)
class Editor:
    """`job` is None for one that does not exist yet. The caller has asked for permission."""

    page: PlainAdmin[Job]
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
        change = Change(Origin.ADMIN, author, now, reason=draft.reason, policy=draft.policy)
        before = self._stored()
        try:
            with transaction.atomic():
                store([definition], change, expected={definition.name: draft.version})
                job = Job.objects.get(name=definition.name)
                self._check_ours(job, now)
                self._log(job, before, draft.reason)
        except StaleVersionError:  # somebody was faster between the look above and the lock in there
            return self._late(draft, definition)
        except DefinitionError as error:
            draft.form.add_error(None, str(error))
            return self._form(draft)
        done = "changed" if self.job else "added"
        message = f"“{job.name}” is {done}: version {job.version}."
        self.page.message_user(self.request, message, messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:jobs_job_change", args=[job.pk]))

    def _check_ours(self, job: Job, now: datetime) -> None:
        # Two people who add one name at once both see no row to lock. The loser's insert waits for the
        # winner's and then does nothing; its tasks must not be written into the winner's job.
        if self.job is None and job.created_at != now:
            raise StaleVersionError(job.name, expected=0, actual=job.version)

    def _log(self, job: Job, before: dict[str, Any] | None, reason: str) -> None:
        if before is None:
            self.page.log_addition(self.request, job, f"Added, version {job.version}: {reason}")
            return
        fields = ", ".join(one.field for one in changes(before, stored(job)))
        self.page.log_change(self.request, job, f"Changed {fields}; version {job.version}: {reason}")

    def _late(self, draft: Draft, definition: Definition) -> HttpResponse:
        if self.job is None:
            return self._taken(draft, definition)
        return self._stale(Job.objects.get(pk=self.job.pk), definition, draft.version)

    def _taken(self, draft: Draft, definition: Definition) -> HttpResponse:
        draft.form.add_error("name", f"name={definition.name!r}: there is a job of this name already")
        return self._form(draft)

    def _stale(self, job: Job, mine: Definition, opened: int) -> HttpResponse:
        """What was typed, again; from here on as an edit of the version that is stored now."""
        typed = self.request.POST.copy()
        typed["version"] = str(job.version)
        now_stored = stored(job)
        versions = {row.number: row for row in job.versions.filter(number__in=[opened, job.version])}
        yours = resolved(mine, job).dumped()
        tables = [changes_section("What your form would change now", changes(now_stored, yours))]
        if opened in versions:
            meanwhile = changes(versions[opened].after, now_stored)
            tables.insert(0, changes_section("Changed since you opened the form", meanwhile))
        stale = StaleVersionError(job.name, expected=opened, actual=job.version)
        return self._form(self._posted(typed), stale=stale, latest=versions.get(job.version), tables=tables)

    def _confirm(self, draft: Draft, definition: Definition, now: datetime) -> HttpResponse:
        after = resolved(definition, self.job)
        found = changes(self._stored(), after.dumped())
        if not found:
            draft.form.add_error(None, "Nothing is changed: this is the definition that is stored.")
            return self._form(draft)
        shown = preview(after, self.job, found, policy=draft.policy, now=now)
        if shown.timing.problem:
            draft.form.add_error("schedule", shown.timing.problem)
            return self._form(draft)
        return self._confirmation(draft, shown)

    def _confirmation(self, draft: Draft, shown: Preview) -> HttpResponse:
        typed = draft.form.cleaned_data["schedule"]
        context = {
            "preview": shown,
            "relative": typed if typed != shown.schedule else "",
            "reason": draft.reason,
            "policy": draft.policy.kind,
            "posted": hidden(self.request.POST),
        }
        return self._page("jobs/confirm.html", "Confirm", context)

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
        return self._page("jobs/editor.html", "Edit" if self.job else "Add job", context)

    def _page(self, template: str, title: str, context: dict[str, Any]) -> HttpResponse:
        named = {"title": f"{title}: {self.job.name}" if self.job else title}
        return rendered(self.page, self.request, self.job, template, named | context)

    def _opened(self) -> Draft:
        if self.job is None:
            return Draft.opened(NEW, version=0, name=None, was_enabled=True)
        start, reason = stored(self.job), ""
        if wanted := self.request.GET.get("restore", ""):
            start, reason = {**start, **restored(self.job, wanted)}, f"Restore version {wanted}"
        facts = {"was_enabled": self.job.enabled, "reason": reason}
        return Draft.opened(start, version=self.job.version, name=self.job.name, **facts)

    def _posted(self, data: QueryDict) -> Draft:
        return Draft.posted(data, name=self.job.name if self.job else None)

    def _stored(self) -> dict[str, Any] | None:
        return stored(self.job) if self.job else None


def stored(job: Job) -> dict[str, Any]:
    return definition_of(job, job.tasks.all()).dumped()


def restored(job: Job, wanted: str) -> dict[str, Any]:
    number = int(wanted) if DIGITS.fullmatch(wanted) else 0
    version = get_object_or_404(JobVersion, job=job, number=number)
    return version.after if isinstance(version.after, dict) else {}


def resolved(definition: Definition, job: Job | None) -> Definition:
    """With the switch as it would be stored."""
    if definition.enabled is not None:
        return definition
    return replace(definition, enabled=job.enabled if job else True)


def hidden(posted: QueryDict) -> list[tuple[str, str]]:
    """Everything typed, to travel through the confirmation page; not the buttons."""
    pairs = [(key, value) for key, values in posted.lists() for value in values]
    return [(key, value) for key, value in pairs if key != "csrfmiddlewaretoken" and key[0] != "_"]
