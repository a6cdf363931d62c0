"""Every line the platform logs is an event of the catalogue, and the documentation lists them all."""

import ast

import pytest

from punctual.jobs.events import Event
from punctual.polling.scheduler_events import SchedulerEvent
from tests.architecture.catalogue import DOCUMENT, emitted, named, rewritten
from tests.architecture.source import called_name, calls, modules

pytestmark = pytest.mark.req("OPS-6")

# Who may hold a logger: the catalogues, and what hands functions theirs.
LOGGERS = {
    "jobs/events.py",
    "polling/scheduler_events.py",
    "execution/worker/attempt.py",
    "execution/worker/log_tail.py",
}
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}


def test_only_the_catalogue_logs() -> None:
    strays = [
        module.at(call)
        for module in modules()
        for call in calls(module)
        if called_name(call) == "getLogger"
        or (called_name(call) in LEVELS and isinstance(call.func, ast.Attribute) and _logger(call.func.value))
        if module.path not in LOGGERS
    ]
    assert strays == []


def _logger(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("log", "logger", "logging")


def test_every_emit_names_an_event_of_the_catalogue() -> None:
    found = list(emitted())
    assert len(found) > 15
    for module, call in found:
        first = ast.unparse(call.args[0])
        allowed = first.startswith(("Event.", "Events.")) or first in ("event", "self.listener")
        assert allowed or module.path.startswith("polling/"), module.at(call)


def test_every_event_is_emitted_somewhere() -> None:
    known = {event.name for event in Event}
    assert named("Event|Events") | {Event.LISTENER_FAILED.name} == known
    assert named("SchedulerEvent") == {signal.name for signal in SchedulerEvent}


def test_the_documentation_lists_the_catalogue() -> None:
    text = DOCUMENT.read_text()
    assert rewritten(text) == text
    assert all(f"| `{event}` |" in text for event in (*Event, *SchedulerEvent))


def test_a_table_that_lags_behind_is_found() -> None:
    text = DOCUMENT.read_text()
    broken = text.replace("| `attempt.lost` |", "| `attempt.mislaid` |")
    assert broken != text
    assert rewritten(broken) == text
