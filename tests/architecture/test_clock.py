"""`now` is a parameter: only doors read a clock, and what they schedule by is the database's."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.source import Module, called_name, calls, module, modules

DOORS = {"tasks.py", "admin.py", "views.py"}  # in any package
DOOR_MODULES = {"beat/celery_scheduler.py", "jobs/clock.py"}
DOOR_FOLDERS = ("/management/commands/", "punctual/commands/")
READERS = {
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("date", "today"),
    ("timezone", "now"),
    ("timezone", "localtime"),
    ("timezone", "localdate"),
    ("time", "time"),
    ("time", "time_ns"),
}


def is_door(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name in DOORS or path in DOOR_MODULES or any(folder in path for folder in DOOR_FOLDERS)


def readings(module: Module) -> Iterator[str]:
    """Calls that read this machine's clock. Monotonic clocks measure; they do not schedule."""
    for call in calls(module):
        match call.func:
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=method):
                if (owner, method) in READERS:
                    yield module.at(call)
        if called_name(call) == "Now":  # django.db.models.functions.Now: a second, hidden clock
            yield module.at(call)


@pytest.mark.req("TSK-8")
def test_only_doors_read_a_clock() -> None:
    found = [place for m in modules() if not is_door(m.path) for place in readings(m)]
    assert found == []


@pytest.mark.parametrize(
    "code",
    ["datetime.now(UTC)", "timezone.now()", "time.time()", "dt.datetime.now()", "Now()"],
)
def test_the_scan_sees_a_reading(code: str) -> None:
    assert list(readings(module("example.py", code))) == ["example.py:1"]


@pytest.mark.parametrize("code", ["time.monotonic()", "database_now()", "clock.now", "now(x)"])
def test_the_scan_lets_everything_else_pass(code: str) -> None:
    assert list(readings(module("example.py", code))) == []
