"""A call of the public API that names its author leaves an audit entry; a program's own call leaves none."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

import punctual
from punctual.jobs.clock import database_now
from punctual.jobs.models import Job
from punctual.operations.models import Audit
from tests.console.ledger_rows import make_job, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2"), pytest.mark.req("JOB-8")]

CALLS: list[tuple[str, Callable[..., object], dict[str, Any]]] = [
    ("run", punctual.trigger, {}),
    ("pause", punctual.pause, {}),
    ("resume", punctual.resume, {"paused_at": datetime.fromisoformat("2026-01-05T00:00:00Z")}),
    ("stop", punctual.stop, {}),
    ("start", punctual.start, {"enabled": False}),
]


def made(**facts: Any) -> Job:
    job = make_job("etl", database_now(), **facts)
    make_task(job)
    return job


@pytest.mark.parametrize(("action", "call", "facts"), CALLS)
def test_a_named_author_leaves_one_entry(action: str, call: Callable[..., object], facts: Any) -> None:
    made(**facts)
    assert call("etl", author="ada", reason="a test")
    entry = Audit.objects.get()
    assert (entry.action, entry.requested_by, entry.reason) == (action, "ada", "a test")
    assert (entry.count, entry.details, entry.finished) == (1, {"job": "etl"}, True)
    if action != "run":
        assert call("etl", author="ada") is False, "nothing is left to change"
        assert Audit.objects.count() == 1


@pytest.mark.parametrize(("action", "call", "facts"), CALLS)
def test_a_program_leaves_none(action: str, call: Callable[..., object], facts: Any) -> None:
    made(**facts)
    assert call("etl"), action
    assert not Audit.objects.exists()


def test_a_change_that_fails_leaves_no_entry() -> None:
    made(paused_at=database_now())
    with pytest.raises(punctual.DefinitionError):
        punctual.resume("etl", backlog="some", author="ada")
    assert Job.objects.get().paused
    assert not Audit.objects.exists()
