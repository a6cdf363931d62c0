"""The registry lists every action once, with a permission that exists and parameters that have defaults."""

from collections import Counter
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import Permission

from punctual.operations.action import ParameterKind, Scope
from punctual.operations.action_registry import ACTIONS, actions_of, find_action
from punctual.operations.models import AuditedAction

pytestmark = pytest.mark.req("OPS-2")

NOW = datetime(2026, 1, 5, tzinfo=UTC)


def test_names_are_unique_within_their_scope() -> None:
    names = Counter((action.scope, action.name) for action in ACTIONS)
    assert [name for name, count in names.items() if count > 1] == []


def test_an_action_is_found_by_scope_and_name_only() -> None:
    for action in ACTIONS:
        assert find_action(action.scope, action.name) is action
    assert find_action(Scope.OCCURRENCES, "backfill") is None
    assert find_action(Scope.JOBS, "explode") is None


def test_actions_of_a_scope_keep_their_order() -> None:
    assert [action.name for action in actions_of(Scope.JOBS)] == [
        "run", "pause", "resume", "stop", "start", "remove", "backfill", "replay", "recover", "prune",
    ]  # fmt: skip
    assert sum(len(actions_of(scope)) for scope in Scope) == len(ACTIONS)


@pytest.mark.django_db
def test_every_permission_exists() -> None:
    known = {
        f"{label}.{codename}"
        for label, codename in Permission.objects.values_list("content_type__app_label", "codename")
    }
    assert {action.permission for action in ACTIONS} <= known


def test_every_kind_of_audit_entry_is_written_by_an_action() -> None:
    assert {action.audit for action in ACTIONS} == set(AuditedAction)


def test_every_choice_has_one_of_its_choices_as_default() -> None:
    parameters = [parameter for action in ACTIONS for parameter in action.parameters]
    choices = [one for one in parameters if one.kind is ParameterKind.CHOICE]
    assert choices
    for parameter in choices:
        assert parameter.default(NOW) in parameter.choices


def test_actions_on_ranges_and_sweeps_are_bounded_per_request() -> None:
    """Actions on ranges and sweeps can grow without bound; each has a limit for one request."""
    unlimited = {(action.scope, action.name) for action in ACTIONS if action.limit is None}
    assert {scope for scope, _ in unlimited} == {Scope.JOBS, Scope.OCCURRENCES, Scope.DEAD_LETTERS}
    assert {name for scope, name in unlimited if scope == Scope.JOBS} == {
        "run", "pause", "resume", "stop", "start", "remove",
    }  # fmt: skip
