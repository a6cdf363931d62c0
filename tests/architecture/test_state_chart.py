import pytest

from tests.architecture.charts import ARROW, DOCUMENT, body, drawn, ordered, rewritten, tables


@pytest.mark.req("OCC-3")
@pytest.mark.parametrize("machine", ["occurrence", "run"])
def test_the_chart_in_the_documentation_is_the_table(machine: str) -> None:
    assert drawn(DOCUMENT.read_text())[machine] == tables()[machine]


def test_no_chart_is_left_over() -> None:
    assert drawn(DOCUMENT.read_text()).keys() == tables().keys()


@pytest.mark.parametrize("machine", ["occurrence", "run"])
def test_drawing_a_table_loses_no_arrow(machine: str) -> None:
    table = tables()[machine]
    assert sorted(ordered(table)) == sorted(table)
    assert set(ARROW.findall(body(table))) == table


def test_rewriting_repairs_a_chart_and_leaves_the_prose() -> None:
    text = DOCUMENT.read_text()
    broken = text.replace("    pending --> queued\n", "    pending --> completed\n")
    assert broken != text
    assert rewritten(broken) == text
