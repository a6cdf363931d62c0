import ast

import pytest

from tests.conformance.marks import Marks, marks_in, marks_of
from tests.conformance.report import CHAPTERS, DOCUMENT, render, unknown, unproven
from tests.conformance.requirements import ROOT, SOURCE, Requirement, read

KEPT = Requirement("OCC-1", "kept", "0.1")
PLANNED = Requirement("OCC-2", "planned", None)


@pytest.fixture(scope="module")
def requirements() -> list[Requirement]:
    return read(SOURCE.read_text())


@pytest.fixture(scope="module")
def marks() -> Marks:
    return marks_in(ROOT / "tests", ROOT)


def test_every_promise_we_claim_to_keep_has_a_test(requirements: list[Requirement], marks: Marks) -> None:
    assert unproven(requirements, marks) == []


def test_every_mark_names_a_promise(requirements: list[Requirement], marks: Marks) -> None:
    assert unknown(requirements, marks) == {}


def test_the_document_is_up_to_date(requirements: list[Requirement], marks: Marks) -> None:
    fresh = render(requirements, marks)
    assert DOCUMENT.read_text() == fresh, "run: python -m tests.conformance"


def test_ids_count_up_without_a_gap(requirements: list[Requirement]) -> None:
    ids = [item.id for item in requirements]
    counts = {prefix: sum(id_.startswith(f"{prefix}-") for id_ in ids) for prefix in CHAPTERS}
    assert ids == [f"{prefix}-{n}" for prefix in CHAPTERS for n in range(1, counts[prefix] + 1)]


def test_a_kept_promise_without_a_test_is_found_and_a_planned_one_is_not() -> None:
    assert unproven([KEPT, PLANNED], {}) == ["OCC-1"]
    assert unproven([KEPT, PLANNED], {"OCC-1": {"tests/test_a.py::test_b"}}) == []


def test_a_mark_that_names_no_promise_is_found() -> None:
    marks: Marks = {"OCC-1": {"a::b"}, "OCC-99": {"c::d"}}
    assert unknown([KEPT], marks) == {"OCC-99": ["c::d"]}


@pytest.mark.parametrize(
    "entry",
    [
        'OCC-1 = { text = "x" }',
        "OCC-1 = { planned = true }",
        'OCC-1 = { text = "x", planned = false }',
        'OCC-1 = { text = "x", planned = true, since = "0.1" }',
    ],
)
def test_a_careless_entry_is_refused_by_name(entry: str) -> None:
    with pytest.raises(ValueError, match="OCC-1: expected text and either since or planned"):
        read(entry)


@pytest.mark.parametrize(
    "code",
    [
        "@pytest.mark.req('OCC-1')\ndef test_a(): ...",
        "@pytest.mark.req('OCC-1')\nasync def test_a(): ...",
        "pytestmark = pytest.mark.req('OCC-1')\ndef test_a(): ...",
        "pytestmark = [pytest.mark.django_db, pytest.mark.req('OCC-1')]\ndef test_a(): ...",
        "@parametrize('x', [pytest.param(1, marks=pytest.mark.req('OCC-1'))])\ndef test_a(x): ...",
    ],
)
def test_a_mark_is_found_wherever_pytest_would_find_it(code: str) -> None:
    assert list(marks_of(ast.parse(code), "t.py")) == [("OCC-1", "t.py::test_a")]


def test_a_mark_on_a_class_counts_for_its_tests() -> None:
    code = "@pytest.mark.req('OCC-1')\nclass TestA:\n    def test_b(self): ...\n    def c(self): ..."
    assert list(marks_of(ast.parse(code), "t.py")) == [("OCC-1", "t.py::TestA::test_b")]


def test_a_function_that_is_no_test_proves_nothing() -> None:
    assert list(marks_of(ast.parse("@pytest.mark.req('OCC-1')\ndef helper(): ..."), "t.py")) == []
