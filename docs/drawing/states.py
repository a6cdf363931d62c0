"""Draw a `stateDiagram-v2`: open states in a row, final states below, each arrow in its source's colour."""

import re

from docs.drawing.canvas import Point, arrow, hue, labelled, svg, width_of

ARROW = re.compile(r"(\S+) --> (\S+)")
EDGE, GAP, HEIGHT = "[*]", 46.0, 32.0
LIFT = 26.0  # how much higher an arc is for each state it passes


def drawn(lines: list[str]) -> str:
    moves = [_move(line) for line in lines]
    final = {source for source, target in moves if target == EDGE}
    order = list(dict.fromkeys(name for move in moves for name in move if name != EDGE))
    open_ = [name for name in order if name not in final]
    above = sorted(open_, key=lambda name: _depth(name, moves, ()))
    below = sorted(final, key=order.index)
    arcs = [(one, two) for one, two in moves if one in above and two in above]
    highest = max((abs(above.index(one) - above.index(two)) for one, two in arcs), default=0)
    top = 30 + LIFT * highest
    places = _row(above, top) | _row(below, top + 210)
    width = max(x + width_of(name) / 2 for name, (x, _) in places.items()) + 60
    places |= _row(above, top, width) | _row(below, top + 210, width)
    shapes = [_drawn(move, places, above, hue(order.index(move[0]))) for move in moves if EDGE not in move]
    shapes += [labelled(places[name], name, radius=16 if name in final else 8) for name in order]
    first = places[next(two for one, two in moves if one == EDGE)]
    left = first[0] - width_of(above[0]) / 2
    shapes.append(arrow([(left - 30, first[1]), (left - 2, first[1])]))
    shapes.append(f'<circle cx="{left - 32:.1f}" cy="{first[1]}" r="5" fill="currentColor"/>')
    return svg((width, top + 240), shapes, label=f"State diagram of {', '.join(order)}")


def _move(line: str) -> tuple[str, str]:
    found = ARROW.fullmatch(line.strip())
    if found is None:
        raise ValueError(f"not a move between states: {line!r}")
    return found[1], found[2]


def _depth(name: str, moves: list[tuple[str, str]], seen: tuple[str, ...]) -> int:
    """Return the length of the longest path from the start that visits no state twice."""
    before = [one for one, two in moves if two == name and one not in (*seen, name)]
    return max((1 + _depth(one, moves, (*seen, name)) for one in before if one != EDGE), default=0)


def _row(names: list[str], y: float, width: float | None = None) -> dict[str, Point]:
    """Place names side by side, centred if `width` is given."""
    needed = sum(width_of(name) for name in names) + GAP * (len(names) - 1)
    x = 60.0 if width is None else (width - needed) / 2
    places = {}
    for name in names:
        places[name] = (x + width_of(name) / 2, y)
        x += width_of(name) + GAP
    return places


def _drawn(move: tuple[str, str], places: dict[str, Point], above: list[str], colour: str) -> str:
    (x1, y1), (x2, y2) = places[move[0]], places[move[1]]
    if y1 == y2:
        steps = above.index(move[1]) - above.index(move[0])
        if steps == 1:
            half = (width_of(move[0]) / 2, width_of(move[1]) / 2)
            return arrow([(x1 + half[0], y1), (x2 - half[1] - 2, y2)], stroke=colour)
        peak = y1 - 22 - LIFT * abs(steps)
        side = 10 if steps > 0 else -10
        ends = (x1 + side, y1 - HEIGHT / 2), (x2 - side, y2 - HEIGHT / 2 - 2)
        return arrow(
            [ends[0], (x1 + side, peak), (x2 - side, peak), ends[1]], stroke=colour, dashed=steps < 0
        )
    down = 1 if y2 > y1 else -1
    # Shift both ends a little towards each other, so that arrows at the same box do not overlap.
    x1, x2 = x1 + (x2 - x1) * 0.04, x2 + (x1 - x2) * 0.05
    start, end = (x1, y1 + down * HEIGHT / 2), (x2, y2 - down * (HEIGHT / 2 + 2))
    middle = (start[1] + end[1]) / 2
    return arrow([start, (x1, middle), (x2, middle), end], stroke=colour, dashed=down < 0)
