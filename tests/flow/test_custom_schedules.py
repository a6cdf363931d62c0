"""A job whose schedule is a user's own code cannot disturb the others, whatever that code does."""

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from punctual import Context, Job, schedules
from punctual.occurrences.models import Cursor, Occurrence
from punctual.schedules import kinds
from tests.harness import Harness

pytestmark = [pytest.mark.django_db, pytest.mark.req("ISO-3")]

TINY = timedelta(microseconds=1)


class Ticks:
    def __init__(self, step: Callable[[datetime], Any]) -> None:
        self.step = step

    def next_after(self, instant: datetime, /) -> Any:
        return self.step(instant)


@pytest.fixture(autouse=True)
def own_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_KINDS", dict(kinds._KINDS))


def register(step: Callable[[datetime], Any]) -> None:
    parser: Any = lambda _text, **_facts: Ticks(step)  # noqa: E731
    schedules.register("ticks", parser)


def run(ctx: Context) -> None: ...


def hang(_at: datetime) -> datetime:
    time.sleep(60)
    raise AssertionError


def dawdle(at: datetime) -> datetime:
    time.sleep(0.01)
    return at + TINY


def fail(_at: datetime) -> datetime:
    raise ConnectionError("the calendar does not answer")


def ask_no_table(at: datetime) -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT day FROM no_such_calendar")
    return at + TINY


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (lambda at: at, "expected a later instant or None"),
        (lambda at: at - timedelta(hours=1), "expected a later instant or None"),
        (fail, "ConnectionError: the calendar does not answer"),
        (hang, "took longer than 5 seconds"),
        (dawdle, "took longer than 5 seconds"),
        (lambda at: at.replace(tzinfo=None), "has no offset"),
        (ask_no_table, "no_such_calendar"),
    ],
    ids=["stands still", "goes back", "raises", "hangs", "dawdles", "naive", "bad SQL"],
)
def test_a_broken_schedule_is_reported_and_every_other_job_runs(
    harness: Harness, step: Callable[[datetime], Any], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    register(step)
    Job("broken", "ticks:x").task(run)
    Job("healthy", "* * * * *").task(run)
    harness.sync()
    began = time.monotonic()
    with caplog.at_level(logging.WARNING, "punctual"):
        harness.live(minutes=2, step=10)
    assert time.monotonic() - began < 30, "no tick is kept busy"
    assert "completed" in harness.states("healthy")
    assert problem in Cursor.objects.get(job__name="broken").problem
    assert not Occurrence.objects.filter(job__name="broken").exists()
    assert any("job.unplannable" in line and problem in line for line in caplog.messages)


def test_instants_without_end_in_no_time_are_planned_in_bounded_steps(harness: Harness) -> None:
    register(lambda at: at + TINY)
    Job("dense", "ticks:x").task(run)
    harness.sync()
    harness.tick()
    assert 0 < Occurrence.objects.count() <= 1000
