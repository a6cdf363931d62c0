"""Write SVG shapes in the theme's colours, so that a diagram is readable in light and dark mode."""

from collections.abc import Sequence
from html import escape
from math import atan2, cos, pi, sin

Point = tuple[float, float]
LETTER, LINE = 7.4, 17.0  # width and height of text at 13 px
INK, FAINT, PAPER = (
    "currentColor",
    "var(--md-default-fg-color--light, #777)",
    "var(--md-code-bg-color, #f5f5f5)",
)
GROUND = "var(--md-default-bg-color, #fff)"
HUES = (225, 150, 25, 285, 345, 190, 95)


def hue(index: int) -> str:
    """Return a colour that is visible on white and on slate."""
    return f"hsl({HUES[index % len(HUES)]} 60% 52%)"


def width_of(text: str, *, padding: float = 24) -> float:
    return len(text) * LETTER + padding


def text(
    at: Point,
    words: str,
    *,
    anchor: str = "middle",
    size: int = 13,
    colour: str = INK,
    over_lines: bool = False,
) -> str:
    x, y = at
    style = f'font-size="{size}" text-anchor="{anchor}" fill="{colour}"'
    style += f' stroke="{GROUND}" stroke-width="4" paint-order="stroke"' if over_lines else ""
    return f'<text x="{x:.1f}" y="{y + size * 0.35:.1f}" {style}>{escape(words)}</text>'


def box(centre: Point, width: float, height: float, *, radius: float = 8, stroke: str = INK) -> str:
    x, y = centre[0] - width / 2, centre[1] - height / 2
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} rx="{radius}" fill="{PAPER}" stroke="{stroke}"/>'


def labelled(
    centre: Point, words: str, *, width: float | None = None, height: float = 32, radius: float = 8
) -> str:
    return box(centre, width or width_of(words), height, radius=radius) + text(centre, words)


def arrow(points: Sequence[Point], *, stroke: str = INK, dashed: bool = False) -> str:
    """Draw a line through two points or a curve through four; the head points along its end."""
    start, *between, end = points
    path = f"M{start[0]:.1f} {start[1]:.1f}"
    path += " C" + ", ".join(f"{x:.1f} {y:.1f}" for x, y in (*between, end)) if between else ""
    path += "" if between else f" L{end[0]:.1f} {end[1]:.1f}"
    before = between[-1] if between else start
    angle = atan2(end[1] - before[1], end[0] - before[0])
    corners = [(end[0] - 9 * cos(angle + turn), end[1] - 9 * sin(angle + turn)) for turn in (-pi / 7, pi / 7)]
    head = " ".join(f"{x:.1f},{y:.1f}" for x, y in (end, *corners))
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    line = f'<path class="edge" d="{path}" fill="none" stroke="{stroke}" stroke-width="1.4"{dash}/>'
    return f'<g>{line}<polygon points="{head}" fill="{stroke}"/></g>'


def svg(size: Point, shapes: Sequence[str], *, label: str) -> str:
    width, height = size
    head = (
        f'<svg class="diagram" role="img" aria-label="{escape(label)}" viewBox="0 0 {width:.0f} {height:.0f}"'
    )
    style = f'style="max-width: {width:.0f}px; width: 100%; height: auto; font-family: inherit"'
    return f'{head} {style} xmlns="http://www.w3.org/2000/svg">{"".join(shapes)}</svg>'
