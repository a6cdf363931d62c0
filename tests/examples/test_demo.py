import importlib
import logging
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import pytest

from punctual.jobs.declaration.registry import Registry, registry

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


def context(attempt: int) -> SimpleNamespace:
    return SimpleNamespace(attempt=attempt, logger=logging.getLogger("demo"))


def test_the_demo_declares_five_jobs(demo: ModuleType, declared: Registry) -> None:
    assert {name: [task.name for task in job.tasks] for name, job in declared.jobs.items()} == {
        "heartbeat": ["heartbeat"],
        "warehouse-etl": ["extract_orders", "extract_customers", "extract_prices"],
        "sales-report": ["collect", "render", "send"],
        "broken-import": ["import_invoices"],
        "slow-backup": ["back_up"],
    }


def test_the_flaky_step_fails_on_every_other_attempt(demo: ModuleType) -> None:
    for attempt in (0, 2):
        with pytest.raises(ConnectionError):
            demo.extract_prices(context(attempt))
    for attempt in (1, 3):
        demo.extract_prices(context(attempt))


def test_the_broken_import_always_fails(demo: ModuleType) -> None:
    with pytest.raises(ValueError, match="4711"):
        demo.import_invoices(context(0))
