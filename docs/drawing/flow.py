"""Draw a `flowchart LR`: boxes in columns by their distance from the start, with labelled arrows."""

import re

from docs.drawing.canvas import Point, arrow, box, hue, svg, text, width_of
from docs.drawing.sequence import wrapped

NODE = re.compile(r'(\w+)\["?([^"\]]+)"?\]')
EDGE = re.compile(r"(\w+) (-->|-\.->)\|([^|]+)\| (\w+)")
COLUMN, ROW = 245.0, 96.0


def drawn(lines: list[str]) -> str:
    names: dict[str, str] = {}
    edges: list[tuple[str, str, str, bool]] = []
    for line in (line.strip() for line in lines):
        if found := NODE.fullmatch(line):
            names[found[1]] = found[2]
        elif found := EDGE.fullmatch(line):
            edges.append((found[1], found[4], found[3], found[2] != "-->"))
        else:
            raise ValueError(f"not a line of a flowchart: {line!r}")
    places = _places(names, edges)
    order = list(names)
    drawings = [_drawn(edge, places, hue(order.index(edge[0]))) for edge in edges]
    shapes = [line for line, _ in drawings] + [label for _, label in drawings]
    shapes += [_box(places[name], words) for name, words in names.items()]
    size = (max(x for x, _ in places.values()) + 90, max(y for _, y in places.values()) + 50)
    return svg(size, shapes, label=f"Data flow between {', '.join(names.values())}")


def _places(names: dict[str, str], edges: list[tuple[str, str, str, bool]]) -> dict[str, Point]:
    """Place a box one column right of the first box that points to it; later edges do not move it."""
    column: dict[str, int] = {}
    for one, two, _, _ in edges:
        column.setdefault(one, 0)
        column.setdefault(two, column[one] + 1)
    rows: dict[int, int] = {}
    places = {}
    for name in names:
        place = column.get(name, 0)
        rows[place] = rows.get(place, -1) + 1
        places[name] = (80 + place * COLUMN, 46 + rows[place] * ROW + (place % 2) * ROW / 2)
    return places


def _box(centre: Point, words: str) -> str:
    lines = wrapped(words, 17)
    width = max(width_of(line, padding=20) for line in lines)
    middle = [(centre[0], centre[1] + (number - (len(lines) - 1) / 2) * 16) for number in range(len(lines))]
    return box(centre, max(width, 110), 20 + 16 * len(lines)) + "".join(map(text, middle, lines))


def _drawn(edge: tuple[str, str, str, bool], places: dict[str, Point], colour: str) -> tuple[str, str]:
    (x1, y1), (x2, y2) = places[edge[0]], places[edge[1]]
    if x1 == x2:
        down = 1 if y2 > y1 else -1
        line = arrow([(x1, y1 + down * 26), (x2, y2 - down * 28)], stroke=colour, dashed=edge[3])
        return line, _label((x1 + 6, (y1 + y2) / 2), edge[2], "start")
    way = 1 if x2 > x1 else -1
    drop = 9 * way  # keeps the arrows of the two directions apart
    start, end = (x1 + way * 62, y1 - drop), (x2 - way * 64, y2 - drop)
    line = arrow(
        [start, (start[0] + way * 60, start[1]), (end[0] - way * 60, end[1]), end],
        stroke=colour,
        dashed=edge[3],
    )
    at = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    return line, _label(at, edge[2], "middle")


def _label(at: Point, words: str, anchor: str) -> str:
    lines = wrapped(words, 17)
    return "".join(
        text(
            (at[0], at[1] + (number - (len(lines) - 1) / 2) * 13),
            line,
            anchor=anchor,
            size=11,
            over_lines=True,
        )
        for number, line in enumerate(lines)
    )
