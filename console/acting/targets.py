"""Read what a request acts on, and know the page it came from and the page it leads to."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID
from zoneinfo import ZoneInfo

from django.core.exceptions import BadRequest
from django.http import HttpRequest, QueryDict
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from punctual.console.kit.display import anchor, list_url, page_url, zone_of
from punctual.console.ledger.dead_letter_query import filter_in, query_of
from punctual.jobs.ids import format_id
from punctual.jobs.models import Job
from punctual.occurrences.models import Occurrence
from punctual.operations.action import Action, Fact, OccurrenceSelection, Result, Scope
from punctual.recovery.dead_letters import DeadLetterFilter

MAX_JOBS = 100  # jobs of one request; a page of the list shows fewer


class RequestTarget(ABC):
    """What a request acts on. `value` is the target of the action's call."""

    scope: ClassVar[Scope]
    single: ClassVar[bool] = True  # one row, acted on from its own page

    @property
    def zone(self) -> ZoneInfo | None:
        """The clock on which times are typed and shown; None: UTC."""
        return None

    @property
    @abstractmethod
    def value(self) -> Any: ...

    @property
    @abstractmethod
    def back_url(self) -> str:
        """The page the action was offered on."""

    @abstractmethod
    def title(self, action: Action[Any]) -> str: ...

    def facts(self) -> list[Fact]:
        """What identifies the target in the preview."""
        return []

    def hidden_values(self, _action: Action[Any]) -> list[tuple[str, str]]:
        """What the confirmation posts so that it finds the same target."""
        return []

    def refusal(self, _action: Action[Any]) -> str:
        """Why the action cannot be applied at all, or an empty text."""
        return ""

    def next_url(self, _result: Result) -> str:
        """Where a successful request leads."""
        return self.back_url

    def created_link(self, _result: Result) -> SafeString | str:
        """A link to what was created, or an empty text."""
        return ""


@dataclass(frozen=True)
class JobTarget(RequestTarget):
    """One job, from its own page."""

    job: Job
    scope = Scope.JOBS

    @classmethod
    def read(cls, _request: HttpRequest, _now: datetime, *, job_id: UUID) -> "JobTarget":
        return cls(get_object_or_404(Job, pk=job_id))

    @property
    def zone(self) -> ZoneInfo | None:
        return zone_of(self.job)

    @property
    def value(self) -> Sequence[Job]:
        return [self.job]

    @property
    def back_url(self) -> str:
        return page_url(self.job)

    def title(self, action: Action[Any]) -> str:
        return f"{action.label}: {self.job.name}"

    def facts(self) -> list[Fact]:
        return [("job", self.job.name)]

    def refusal(self, action: Action[Any]) -> str:
        return "" if action.available(self.job) else f"“{self.job.name}”: {action.unavailable}."

    def created_link(self, result: Result) -> SafeString | str:
        if len(result.created) == 1:
            return anchor(occurrence_url(result.created[0]), format_id("occ", result.created[0]))
        if result.created_cause and result.count:
            cause = result.created_cause
            url = list_url("punctual_occurrence", job__id__exact=self.job.pk, cause__exact=cause)
            return anchor(url, "Show them")
        return ""


@dataclass(frozen=True)
class JobListTarget(RequestTarget):
    """Jobs ticked in their list."""

    jobs: Sequence[Job]
    scope = Scope.JOBS
    single = False

    @classmethod
    def read(cls, request: HttpRequest, _now: datetime) -> "JobListTarget":
        ids = job_ids_in(request.POST if request.method == "POST" else request.GET)
        return cls(list(Job.objects.filter(pk__in=ids).order_by("name")))

    @property
    def value(self) -> Sequence[Job]:
        return self.jobs

    @property
    def back_url(self) -> str:
        return reverse("admin:punctual_job_changelist")

    def title(self, action: Action[Any]) -> str:
        return f"{action.verb} jobs"

    def hidden_values(self, action: Action[Any]) -> list[tuple[str, str]]:
        return [("jobs", ",".join(str(job.pk) for job in self.jobs if action.available(job)))]


@dataclass(frozen=True)
class OccurrenceTarget(RequestTarget):
    """One occurrence, from its own page."""

    occurrence: Occurrence
    scope = Scope.OCCURRENCES

    @classmethod
    def read(cls, _request: HttpRequest, _now: datetime, *, occurrence_id: UUID) -> "OccurrenceTarget":
        return cls(get_object_or_404(Occurrence.objects.select_related("job"), pk=occurrence_id))

    @property
    def value(self) -> OccurrenceSelection:
        return OccurrenceSelection(Occurrence.objects.filter(pk=self.occurrence.pk))

    @property
    def back_url(self) -> str:
        return page_url(self.occurrence)

    def title(self, action: Action[Any]) -> str:
        return f"{action.label}: {self.occurrence.job.name}"

    def facts(self) -> list[Fact]:
        one = self.occurrence
        return [("job", one.job.name), ("occurrence", one.display_id), ("state", one.get_state_display())]

    def next_url(self, result: Result) -> str:
        return occurrence_url(result.created[0]) if result.created else self.back_url


@dataclass(frozen=True)
class DeadLettersTarget(RequestTarget):
    """Dead letters that match the query string; a preview adds its time, so that later ones are left out."""

    which: DeadLetterFilter
    previewed: DeadLetterFilter
    scope = Scope.DEAD_LETTERS

    @classmethod
    def read(cls, request: HttpRequest, now: datetime) -> "DeadLettersTarget":
        posted = request.method == "POST"
        which = filter_in(request.POST if posted else request.GET, now)
        previewed = replace(which, before=which.before or now)
        return cls(which if posted else previewed, previewed)

    @property
    def value(self) -> DeadLetterFilter:
        return self.which

    @property
    def back_url(self) -> str:
        return reverse("punctual_console:dead")

    def title(self, action: Action[Any]) -> str:
        return f"{action.label} dead letters"

    def hidden_values(self, _action: Action[Any]) -> list[tuple[str, str]]:
        return list(query_of(self.previewed).items())


@dataclass(frozen=True)
class PlatformTarget(RequestTarget):
    """The whole platform."""

    scope = Scope.PLATFORM

    @classmethod
    def read(cls, _request: HttpRequest, _now: datetime) -> "PlatformTarget":
        return cls()

    @property
    def value(self) -> None:
        return None

    @property
    def back_url(self) -> str:
        return reverse("punctual_console:recovery")

    def title(self, action: Action[Any]) -> str:
        return action.label


@dataclass(frozen=True)
class LedgerTarget(PlatformTarget):
    """The whole platform, from the list of occurrences."""

    @property
    def back_url(self) -> str:
        return reverse("admin:punctual_occurrence_changelist")


def occurrence_url(occurrence_id: UUID) -> str:
    return reverse("admin:punctual_occurrence_change", args=[occurrence_id])


def job_ids_in(query: QueryDict) -> list[UUID]:
    texts = query.get("jobs", "").split(",")
    if len(texts) > MAX_JOBS:
        raise BadRequest(f"jobs: {len(texts)} ids, at most {MAX_JOBS} allowed")
    try:
        return [UUID(text) for text in texts]
    except ValueError:
        raise BadRequest(f"jobs={query.get('jobs', '')!r}: expected ids, separated by commas") from None


def job_list_url(name: str, jobs: Iterable[UUID]) -> str:
    query = urlencode({"jobs": ",".join(map(str, jobs))})
    return f"{reverse('punctual_console:act_on_jobs', args=[name])}?{query}"
