"""Every diagram of the documentation is drawn completely from its Mermaid text."""

import re
from html import unescape

import pytest
from pymdownx.superfences import SuperFencesException

from docs.drawing.fence import draw, fence
from punctual.occurrences import states
from tests.docs.markdown import ROOT

FENCE = re.compile(r"```mermaid\n(.*?)```", re.DOTALL)
SOURCES = {
    f"{page.name} {number}": source
    for page in sorted((ROOT / "docs").glob("*.md"))
    for number, source in enumerate(FENCE.findall(page.read_text()))
}
EDGES = re.compile(r"-->>|->>|-->|-\.->")


def words(drawing: str) -> str:
    """Return the texts of a drawing, with wrapped lines joined."""
    return " ".join(unescape(part) for part in re.findall(r"<text[^>]*>([^<]*)</text>", drawing))


def test_the_architecture_has_its_data_flow_its_sequence_and_its_states() -> None:
    kinds = {source.split("\n", 1)[0] for source in SOURCES.values()}
    assert kinds == {"flowchart LR", "sequenceDiagram", "stateDiagram-v2"}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_every_arrow_of_the_text_is_an_arrow_of_the_drawing(source: str) -> None:
    ways_out = source.count("--> [*]")  # a final state is drawn round instead
    assert draw(source).count('class="edge"') == len(EDGES.findall(source)) - ways_out


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_every_name_and_message_can_be_read_in_it(source: str) -> None:
    shown = words(draw(source))
    said = [*re.findall(r"(?:participant \w+ as |: |\|)([^|\n]+?)(?:\||\n)", source)]
    if source.startswith("stateDiagram"):
        said = re.findall(r"\w+", source.split("\n", 1)[1])
    assert said
    for text in said:
        assert text.split()[0] in shown, text


@pytest.mark.req("OCC-3")
def test_the_drawings_hold_the_states_of_the_tables() -> None:
    both = " ".join(words(draw(source)) for name, source in SOURCES.items() if name.startswith("states.md"))
    assert {*states.OccurrenceState, *states.RunState} <= set(both.split())


@pytest.mark.parametrize(
    "source",
    ["pie\n  a", "stateDiagram-v2\n  a -> b", "sequenceDiagram\n  what", "flowchart LR\n  A --> B"],
)
def test_what_cannot_be_drawn_stops_the_build(source: str) -> None:
    with pytest.raises(SuperFencesException, match=r"not a|expected one of"):
        fence(source, "mermaid", "mermaid", {}, None)


def test_a_text_that_looks_like_markup_stays_text() -> None:
    drawing = draw('flowchart LR\nA["<b>x</b>"]\nB["y"]\nA -->|a & b| B')
    assert "<b>" not in drawing
    assert "a &amp; b" in drawing
