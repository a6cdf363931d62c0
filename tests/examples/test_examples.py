"""The examples do what their first line says, driven by hand with an explicit clock."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from punctual.jobs.declaration.registry import registry
from tests.harness import Harness

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("OPS-1")]


@pytest.fixture
def harness() -> Iterator[Harness]:
    harness = Harness()
    harness.lose_messages()
    with registry.isolated():
        yield harness
    harness.lose_messages()


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imported afresh, so that its declarations stay in this test."""

    def imported(name: str) -> ModuleType:
        monkeypatch.delitem(sys.modules, f"examples.{name}", raising=False)
        module = importlib.import_module(f"examples.{name}")
        monkeypatch.delitem(sys.modules, f"examples.{name}")
        return module

    return imported


def test_basic_runs_at_each_tenth_minute(harness: Harness, example: Any) -> None:
    example("basic")
    harness.start_at("2026-03-28T23:55:00Z")
    harness.live(minutes=21, step=60)
    done = [one.scheduled_for.minute for one in harness.occurrences("refresh_prices") if one.finished_at]
    assert sorted(done) == [0, 10]
    assert set(harness.finished("refresh_prices")) == {"completed"}


def test_parallel_continues_after_a_failure_and_reports_it(harness: Harness, example: Any) -> None:
    module = example("parallel")
    harness.start_at("2026-03-28T01:59:30Z")
    harness.live(minutes=2, step=30)
    assert harness.finished("nightly-warehouse") == ["completed_with_errors"]
    (report,) = module.reports
    assert {task["task"]: task["status"] for task in report["tasks"]} == {
        "orders": "success",
        "customers": "dlq",
        "close_connections": "success",
    }


def test_recovery_runs_the_recent_hours_and_records_the_others_as_missed(
    harness: Harness, example: Any
) -> None:
    module = example("recovery")
    harness.start_at("2026-03-28T00:30:00Z")
    harness.tick()
    harness.pass_time(hours=8)  # no beat ticked meanwhile
    harness.live(minutes=2, step=10)
    states = harness.states("hourly-billing")
    assert len(module.billed) == 3, states
    assert module.billed[-1].startswith("2026-03-28T08:00")
    assert "missed" in states
