"""Draw a `sequenceDiagram`: a column per participant, a row per message, notes and loops as boxes."""

import re

from docs.drawing.canvas import FAINT, PAPER, arrow, hue, labelled, svg, text, width_of

PARTICIPANT = re.compile(r"participant (\w+) as (.+)")
MESSAGE = re.compile(r"(\w+)(-{1,2}>>)(\w+): (.+)")
NOTE = re.compile(r"Note over (\w+)(?:,(\w+))?: (.+)")
LOOP = re.compile(r"loop (.+)")
COLUMN, ROW, LEFT = 250.0, 44.0, 90.0
LONGEST = 34  # characters that fit between two adjacent columns


def drawn(lines: list[str]) -> str:
    people: dict[str, str] = {}
    shapes: list[str] = []
    y, loop = 70.0, ("", 0.0)
    for line in (line.strip() for line in lines):
        if found := PARTICIPANT.fullmatch(line):
            people[found[1]] = found[2]
        elif found := MESSAGE.fullmatch(line):
            y += _message(shapes, list(people), found, y)
        elif found := NOTE.fullmatch(line):
            y += _note(shapes, list(people), found, y)
        elif found := LOOP.fullmatch(line):
            loop, y = (found[1], y - 14), y + 26
        elif line == "end":
            shapes.insert(0, _looped(loop[0], loop[1], y - 12, len(people)))
            y += 14
        else:
            raise ValueError(f"not a line of a sequence: {line!r}")
    width = LEFT * 2 + COLUMN * (len(people) - 1)
    rails = [
        f'<line x1="{_x(i)}" x2="{_x(i)}" y1="40" y2="{y:.0f}" stroke="{FAINT}" stroke-dasharray="2 4"/>'
        for i in range(len(people))
    ]
    heads = [labelled((_x(i), 24), name, width=110) for i, name in enumerate(people.values())]
    return svg(
        (width, y + 10), [*rails, *shapes, *heads], label=f"Sequence between {', '.join(people.values())}"
    )


def _x(column: int) -> float:
    return LEFT + column * COLUMN


def _message(shapes: list[str], people: list[str], found: re.Match[str], y: float) -> float:
    one, two = people.index(found[1]), people.index(found[3])
    words, colour, dashed = found[4], hue(one), found[2].startswith("--")
    lines = wrapped(words, LONGEST * max(abs(one - two), 1))
    for number, line in enumerate(lines):
        middle = (_x(one) + _x(two)) / 2 if one != two else _x(one)
        anchor, x = ("middle", middle) if one != two else ("end", middle - 8)
        shapes.append(text((x, y + number * 15), line, anchor=anchor, size=12))
    foot = y + len(lines) * 15 - 2
    if one == two:
        x = _x(one)
        shapes.append(arrow([(x, y - 6), (x + 44, y - 6), (x + 44, y + 12), (x + 3, y + 12)], stroke=colour))
        return max(foot - y, 14) + 24
    shift = 3 if two > one else -3
    shapes.append(arrow([(_x(one), foot), (_x(two) - shift, foot)], stroke=colour, dashed=dashed))
    return foot - y + 26


def _note(shapes: list[str], people: list[str], found: re.Match[str], y: float) -> float:
    columns = [people.index(name) for name in found.groups()[:2] if name]
    lines = wrapped(found[3], LONGEST * max(max(columns) - min(columns), 1))
    middle, width = sum(map(_x, columns)) / len(columns), max(width_of(line) for line in lines)
    height = 15 * len(lines) + 10
    place = f'x="{middle - width / 2:.1f}" y="{y - 13:.1f}" width="{width:.1f}" height="{height}"'
    shapes.append(f'<rect {place} fill="{PAPER}" stroke="{FAINT}"/>')
    shapes += [text((middle, y + number * 15), line, size=12) for number, line in enumerate(lines)]
    return height + 18


def _looped(words: str, top: float, bottom: float, columns: int) -> str:
    width = LEFT * 2 + COLUMN * (columns - 1) - 16
    place = f'x="8" y="{top:.0f}" width="{width:.0f}" height="{bottom - top:.0f}"'
    frame = f'<rect {place} fill="none" stroke="{FAINT}" rx="6"/>'
    return frame + text((18, top + 14), f"loop: {words}", anchor="start", size=12, colour=FAINT)


def wrapped(words: str, longest: int) -> list[str]:
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) + 1 > longest and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
