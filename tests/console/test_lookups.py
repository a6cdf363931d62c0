"""Lists are filtered by declared filters alone: any other lookup would be an oracle for hidden values."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth.models import User
from django.contrib.messages.storage.fallback import FallbackStorage
from django.db.models import Field, JSONField, Model
from django.test import Client, RequestFactory
from django.urls import reverse

from punctual.console.kit.keyset import AFTER, BEFORE
from punctual.console.kit.theme import ConsoleAdmin
from tests.console.ledger_rows import make_story

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2", "OPS-7")]

OURS = {model: page for model, page in admin.site._registry.items() if isinstance(page, ConsoleAdmin)}
LISTS = [pytest.param(model, id=model.__name__) for model in OURS]
# What the lists declare; a parameter that is added here is one more question a reader may ask.
DECLARED = {
    "Job": {"state", "origin__exact", "origin__isnull"},
    "Task": {"job__id__exact", "job__isnull"},
    "JobVersion": {"job__id__exact", "job__isnull"},
    "Occurrence": {
        "state__exact", "state__isnull", "cause__exact", "cause__isnull", "job__id__exact", "job__isnull",
        "run_at__lte", "late_at__lte",
    },
    "TaskRun": {
        "state__exact", "state__isnull", "occurrence__job__id__exact", "occurrence__job__isnull",
        "fingerprint__exact", "task__id__exact", "occurrence__id__exact",
    },
    "Attempt": {
        "state__exact", "state__isnull", "run__occurrence__job__id__exact", "run__occurrence__job__isnull",
        "run__id__exact",
    },
    "Pool": set(),
    "Process": set(),
    "Audit": {"action__exact", "action__isnull"},
}  # fmt: skip


def fields(model: type[Model], *, depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Every column, and through relations in both directions those of the neighbours."""
    for field in model._meta.get_fields():
        if isinstance(field, Field):
            yield field.name, field
        if depth and field.related_model is not None:
            name = field.name if isinstance(field, Field) else field.get_accessor_name() or field.name
            for inner, column in fields(field.related_model, depth=depth - 1):
                yield f"{name}__{inner}", column


def lookups(name: str, field: Any) -> Iterator[str]:
    """The bare column, each registered lookup and transform, and below JSON columns those of a key."""
    yield name
    for lookup in field.get_lookups():
        yield f"{name}__{lookup}"
        yield f"{name}__{lookup}__startswith"
    if isinstance(field, JSONField):
        for inner in ("recipe", "0", "recipe__word"):
            yield f"{name}__{inner}"
            yield from (f"{name}__{inner}__{lookup}" for lookup in ("startswith", "regex", "contains", "gt"))


def undeclared(model: type[Model]) -> list[str]:
    declared = DECLARED[model.__name__] | {AFTER, BEFORE}  # places of the pager, never filters
    return [text for name, field in fields(model) for text in lookups(name, field) if text not in declared]


def request_for(path: str, query: dict[str, str], user: User) -> Any:
    request: Any = RequestFactory().get(path, query)
    request.user, request.session = user, {}
    request._messages = FallbackStorage(request)
    return request


@pytest.mark.parametrize("model", LISTS)
def test_every_undeclared_lookup_is_refused(model: type[Model], admin_user: User) -> None:
    page, passed, asked = OURS[model], [], undeclared(model)
    assert len(asked) > 50
    for lookup in asked:
        for value in ("a", "["):
            try:
                page.get_changelist_instance(request_for("/", {lookup: value}, admin_user))
            except (DisallowedModelAdminLookup, IncorrectLookupParameters):
                continue
            passed.append(f"{lookup}={value}")
    assert passed == []


@pytest.mark.parametrize("model", LISTS)
def test_declared_lookups_are_answered(model: type[Model], admin_user: User, now: datetime) -> None:
    make_story("etl", now)
    row = model._default_manager.first()
    for lookup in DECLARED[model.__name__]:
        value = str(getattr(row, "pk", "")) if lookup.endswith("id__exact") else "1"
        value = now.isoformat() if lookup.endswith("_at__lte") else value
        OURS[model].get_changelist_instance(request_for("/", {lookup: value}, admin_user))


@pytest.mark.parametrize(
    "query",
    ["args__recipe__startswith=S", "args__password__regex=^h", "args__regex=[", "report__0__contains=x",
     "job__config__secret__startswith=a", "args=x", "reason__regex=["],
)  # fmt: skip
def test_a_read_only_user_cannot_guess_an_argument(root: Client, now: datetime, query: str) -> None:
    make_story("etl", now)
    answer = root.get(f"{reverse('admin:punctual_occurrence_changelist')}?{query}")
    assert answer.status_code == 400
