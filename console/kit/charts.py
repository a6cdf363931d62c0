"""Draw charts as inline SVG. Lengths along time are percentages, so text keeps its size at every width.

Colour is never the only sign: `look` names a class of the style sheet; a failed bar is hatched, a planned
one is an outline, one that will not run is dashed.
"""

from collections.abc import Iterable

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

HATCH = mark_safe(
    '<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="5" height="5" class="hatch-ground"/>'
    '<rect width="2" height="5" class="hatch-line"/></pattern></defs>'
)


def picture(height: float, shapes: Iterable[SafeString], *, label: str) -> SafeString:
    """Draw shapes over the full width; screen readers read `label`."""
    return format_html(
        '<svg class="drawing" width="100%" height="{}" role="img" aria-label="{}">{}{}</svg>',
        _short(height),
        label,
        HATCH,
        join(shapes),
    )


def join(shapes: Iterable[SafeString]) -> SafeString:
    return format_html_join("", "{}", ((shape,) for shape in shapes))


def bar(look: str, x: float, width: float, *, y: float, height: float, title: str = "") -> SafeString:
    """`x` and `width` in percent of the drawing, `y` and `height` in pixels."""
    return format_html(
        '<rect class="bar {}" x="{}%" width="{}%" y="{}" height="{}" rx="1.5">{}</rect>',
        look,
        _short(x),
        _short(width),
        _short(y),
        _short(height),
        _title(title),
    )


def dot(look: str, x: float, y: float, *, radius: float = 4, title: str = "") -> SafeString:
    return format_html(
        '<circle class="bar {}" cx="{}%" cy="{}" r="{}">{}</circle>',
        look,
        _short(x),
        _short(y),
        _short(radius),
        _title(title),
    )


def line(look: str, x1: float, y1: float, x2: float, y2: float) -> SafeString:
    return format_html(
        '<line class="{}" x1="{}%" y1="{}" x2="{}%" y2="{}"/>', look, *map(_short, (x1, y1, x2, y2))
    )


def label_text(text: str, x: float, y: float, *, anchor: str = "start", look: str = "label") -> SafeString:
    return format_html(
        '<text class="{}" x="{}%" y="{}" text-anchor="{}">{}</text>', look, _short(x), _short(y), anchor, text
    )


def link_shapes(url: str, *shapes: SafeString) -> SafeString:
    """Link shapes for the pointer; the keyboard uses the same links in a list beside the drawing."""
    return format_html('<a href="{}" tabindex="-1">{}</a>', url, join(shapes))


def group(title: str, *shapes: SafeString) -> SafeString:
    return format_html("<g>{}{}</g>", _title(title), join(shapes))


def _title(text: str) -> SafeString:
    return format_html("<title>{}</title>", text) if text else SafeString("")


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
