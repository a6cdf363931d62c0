"""Draw the text of a Mermaid fence by its kind; text that cannot be drawn stops the build."""

from typing import Any

from pymdownx.superfences import SuperFencesException

from docs.drawing import flow, sequence, states

KINDS = {"stateDiagram-v2": states.drawn, "sequenceDiagram": sequence.drawn, "flowchart LR": flow.drawn}


def draw(source: str) -> str:
    kind, *lines = [line for line in source.splitlines() if line.strip()]
    if kind.strip() not in KINDS:
        raise ValueError(f"{kind!r}: expected one of {', '.join(KINDS)}")
    return KINDS[kind.strip()](lines)


def fence(source: str, _language: str, _class: str, _options: Any, _markdown: Any, **_more: Any) -> str:
    try:
        drawing = draw(source)
    except ValueError as error:
        # The extension only logs other exceptions, and leaves the text as it is.
        raise SuperFencesException(str(error)) from error
    return f'<div class="drawing" style="overflow-x: auto">{drawing}</div>'
