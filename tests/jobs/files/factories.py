"""Definitions and files for tests, and the commands that apply and export them."""

import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from punctual.jobs.declaration.registry import Registry, TaskFunction, registry
from punctual.jobs.models import Job, JobVersion, Origin, Task
from punctual.jobs.store.definitions import Change

NOW = datetime(2026, 1, 5, 12, 0, 30, tzinfo=UTC)
LATER = NOW + timedelta(minutes=10)
CHANGE = Change(Origin.FILE, "ann", NOW)


@pytest.fixture(autouse=True)
def declared() -> Iterator[Registry]:
    with registry.isolated():
        for name in ("app.load", "app.step"):
            registry.add_function(TaskFunction(name, step))
        yield registry


@pytest.fixture
def write_file(tmp_path: Path) -> Callable[..., str]:
    def write(content: object, name: str = "fleet.json") -> str:
        path = tmp_path / name
        raw = content if isinstance(content, bytes) else None
        text = content if isinstance(content, str) else json.dumps(content) if raw is None else ""
        path.write_bytes(raw if raw is not None else text.encode())
        return str(path)

    return write


def step(ctx: object) -> None: ...


def a_definition(name: str = "job", schedule: str = "@hourly", **fields: Any) -> dict[str, Any]:
    return {"name": name, "schedule": schedule, "tasks": [{"name": "step", "function": "app.step"}]} | fields


def a_fleet(*definitions: object) -> dict[str, Any]:
    return {"jobs": list(definitions)}


RICH = a_definition(
    "nächtlich: ü → 夜",
    "TZ=Europe/Berlin 0 2 * * MON-FRI {jitter:5m}",
    config={"mode": "parallel", "retry": {"max_retries": 2, "interval": "30s"}, "task_timeout": "90s"},
    metadata={
        "yes": "no",
        "": "0x10",
        "date": "2026-01-01",
        "text": "line\nline\t\u2028\x85 # : - 'quoted\"",
    },
    enabled=False,
    tasks=[
        {"name": "load", "function": "app.load", "config": {"queue": "bulk"}},
        {"name": "extract", "function": "app.step"},
    ],
)


def apply_file(path: str, *words: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command("punctual", "jobs", "apply", path, *words, "--json", stdout=out)
    result: dict[str, Any] = json.loads(out.getvalue())
    return result


def export_text(*words: str) -> str:
    out = io.StringIO()
    call_command("punctual", "jobs", "export", *words, stdout=out)
    return out.getvalue()


def refusal_lines(path: str, *words: str) -> list[str]:
    """Apply an invalid file, check that nothing was written, and return the lines of the message."""
    before = all_rows()
    with pytest.raises(CommandError) as caught:
        call_command("punctual", "jobs", "apply", path, *words)
    assert all_rows() == before
    assert caught.value.returncode == 1
    return str(caught.value).splitlines()


def all_rows() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in (Job, Task, JobVersion)]
