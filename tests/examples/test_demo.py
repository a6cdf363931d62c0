import importlib
import logging
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import pytest

from punctual import HandBack
from punctual.jobs.declaration.registry import Registry, registry
from tests.docs.markdown import page

pytestmark = pytest.mark.req("OPS-1")


@pytest.fixture
def declared() -> Iterator[Registry]:
    with registry.isolated() as empty:
        yield empty


@pytest.fixture
def demo(declared: Registry, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Imported afresh, so that its declarations stay in this test."""
    monkeypatch.delitem(sys.modules, "examples.demo.jobs", raising=False)
    module = importlib.import_module("examples.demo.jobs")
    monkeypatch.delitem(sys.modules, "examples.demo.jobs")
    return module


def context(attempt: int, **facts: object) -> SimpleNamespace:
    return SimpleNamespace(attempt=attempt, logger=logging.getLogger("demo"), **facts)


def test_the_demo_declares_five_jobs(demo: ModuleType, declared: Registry) -> None:
    assert {name: [task.name for task in job.tasks] for name, job in declared.jobs.items()} == {
        "heartbeat": ["heartbeat"],
        "warehouse-etl": ["extract_orders", "extract_customers", "extract_prices"],
        "sales-report": ["collect", "render", "send"],
        "broken-import": ["import_orders"],
        "slow-backup": ["back_up"],
    }


def test_the_flaky_step_fails_on_every_other_attempt(demo: ModuleType) -> None:
    for attempt in (0, 2):
        with pytest.raises(ConnectionError):
            demo.extract_prices(context(attempt))
    for attempt in (1, 3):
        demo.extract_prices(context(attempt))


def test_the_broken_import_always_fails(demo: ModuleType) -> None:
    with pytest.raises(LookupError, match="order 1187"):
        demo.import_orders(context(0))


@pytest.mark.req("EXE-9")
def test_the_slow_backup_hands_back_when_its_worker_stops(demo: ModuleType) -> None:
    with pytest.raises(HandBack):
        demo.back_up(context(0, stopping=True, canceled=False))


def test_the_demo_and_the_tutorial_fail_with_different_errors(demo: ModuleType) -> None:
    with pytest.raises(LookupError) as failed:
        demo.import_orders(context(0))
    assert str(failed.value) not in page("docs/tutorial.md").text
