"""Reasons are members of `Reason`: no module passes, compares or filters by a bare text."""

import ast
from collections.abc import Iterator

import pytest

from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import Reason
from tests.architecture.source import Module, called_name, modules

VALUES = {reason.value for reason in Reason}


def bare_reasons(tree: ast.AST) -> Iterator[ast.AST]:
    """Texts of `Reason` given as `reason=…` or compared with an attribute `reason`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call() if called_name(node) != "Change":  # the reason of a version is an author's text
                values = [item.value for item in node.keywords if item.arg in ("reason", "reason__in")]
                yield from (part for value in values for part in ast.walk(value) if _is_bare(part))
            case ast.Compare(left=ast.Attribute(attr="reason") | ast.Name(id="reason"), comparators=others):
                yield from (part for other in others for part in ast.walk(other) if _is_bare(part))


def _is_bare(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in VALUES


def places(module: Module) -> list[str]:
    return [module.at(node) for node in bare_reasons(module.tree)]


def test_no_module_uses_a_bare_reason() -> None:
    assert [place for module in modules() for place in places(module)] == []


@pytest.mark.parametrize(
    "code",
    [
        'transitions.skip(ids, reason="paused", now=now)',
        'rows.filter(reason="overlap")',
        'rows.filter(reason__in=("pool", "overlap"))',
        'cancel(ids, reason="operator" if manual else other)',
        'row.reason == "window"',
        'reason != "overlap"',
        'row.reason in ("paused", "removed")',
    ],
)
def test_a_bare_reason_is_found(code: str) -> None:
    assert list(bare_reasons(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "transitions.skip(ids, reason=Reason.PAUSED, now=now)",
        'Change(origin, author, now, reason="stopped")',
        'config.overlap == "skip"',
    ],
)
def test_other_texts_are_not_taken_for_a_reason(code: str) -> None:
    assert not list(bare_reasons(ast.parse(code)))


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_fits_its_column_and_is_explained(reason: Reason) -> None:
    for model in (Occurrence, TaskRun):
        length = model._meta.get_field("reason").max_length
        assert length is not None
        assert 0 < len(reason.value) <= length
    assert str(reason.label).endswith(".")
    assert reason.label != reason.value
