"""Show previews and results of actions: facts and tables as HTML, results as messages."""

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from punctual.console.kit.badges import state_badge
from punctual.console.kit.display import Section, instant
from punctual.occurrences.states import OccurrenceState
from punctual.operations.action import Fact, Result, Table


def render_value(value: object, zone: ZoneInfo | None) -> object:
    if isinstance(value, datetime):
        return instant(value, zone)
    if isinstance(value, OccurrenceState):
        return state_badge(value)
    return f"{value:,}" if isinstance(value, int) else value


def render_facts(facts: Sequence[Fact], zone: ZoneInfo | None) -> list[Fact]:
    return [(name, render_value(value, zone)) for name, value in facts]


def render_tables(tables: Sequence[Table], zone: ZoneInfo | None) -> list[Section]:
    return [
        Section(
            table.title, table.headers, [[render_value(cell, zone) for cell in row] for row in table.rows]
        )
        for table in tables
    ]


def show_result(request: HttpRequest, result: Result, link: SafeString | str) -> None:
    """Add the messages of a result; `link` leads to what it created."""
    for problem in result.problems:
        messages.error(request, problem)
    if result.count or not result.problems:
        level = messages.SUCCESS if result.count else messages.WARNING
        message = format_html("{} {}", result.message, link) if link else result.message
        messages.add_message(request, level, message)
    for note in result.notes:
        messages.info(request, note)
