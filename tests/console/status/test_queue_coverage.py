"""A queue lacks a worker when runs have waited in it for a while and no live worker consumes it."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from punctual.console.status.queue_coverage import (
    MAX_UNSERVED,
    QueueCoverage,
    describe_unserved,
    queue_coverage,
    unserved_queues,
)
from punctual.execution.models import Process
from punctual.execution.supervision.presence import SILENT_AFTER
from punctual.occurrences.states import OccurrenceState, RunState
from tests.console.ledger_rows import make_job, make_occurrence, make_run, make_task

pytestmark = pytest.mark.req("OPS-4")

MINUTE = timedelta(minutes=1)
MOMENT = timedelta(milliseconds=1)


def make_worker(name: str, seen_at: datetime, *queues: str) -> None:
    facts = {"kind": "worker", "started_at": seen_at, "seen_at": seen_at, "queues": list(queues)}
    Process.objects.create(name=name, tick_duration=timedelta(), **facts)


def make_waiting(now: datetime, queue: str, **facts: Any) -> None:
    job = make_job(f"job of {queue} {facts}", now)
    occurrence = make_occurrence(job, now - 2 * MINUTE, OccurrenceState.DISPATCHED)
    make_run(occurrence, make_task(job), **{"state": RunState.SCHEDULED, "policy": {"queue": queue}} | facts)


@pytest.mark.parametrize(
    ("workers", "waits", "unserved"),
    [
        (0, MAX_UNSERVED, False),
        (0, MAX_UNSERVED + MOMENT, True),
        (1, MAX_UNSERVED + MOMENT, False),
        (0, None, False),
    ],
)
def test_the_decision(now: datetime, workers: int, waits: timedelta | None, *, unserved: bool) -> None:
    queue = QueueCoverage("slow", workers, waiting=1, oldest_at=None if waits is None else now - waits)
    assert queue.unserved(now) is unserved


@pytest.mark.django_db
def test_sent_and_unsent_runs_wait_and_others_do_not(now: datetime) -> None:
    make_waiting(now, "sent")
    make_waiting(now, "unsent", dispatched_at=None)
    make_waiting(now, "its turn comes later", available_at=None, dispatched_at=None)
    make_waiting(now, "retry", state=RunState.RETRY, available_at=now + MINUTE)
    make_waiting(now, "running", state=RunState.RUNNING)
    assert [queue.name for queue in unserved_queues(now)] == ["sent", "unsent"]


@pytest.mark.django_db
def test_a_message_that_is_sent_again_has_waited_since_its_run_was_available(now: datetime) -> None:
    make_waiting(now, "slow", dispatched_at=now)
    (queue,) = unserved_queues(now)
    assert (queue.oldest_at, queue.sent_at) == (now - 2 * MINUTE, now)
    assert describe_unserved([queue], now) == (
        "no live worker consumes slow (runs that wait: 1, for up to 120 s)"
    )


@pytest.mark.django_db
def test_only_a_live_worker_that_consumes_the_queue_counts(now: datetime) -> None:
    for queue in ("a", "b", "c"):
        make_waiting(now, queue)
    make_worker("live", now - SILENT_AFTER, "a", "idle")
    make_worker("silent", now - SILENT_AFTER - MOMENT, "b")
    assert [queue.name for queue in unserved_queues(now)] == ["b", "c"]
    workers = {queue.name: queue.workers for queue in queue_coverage(now)}
    assert workers == {"a": 1, "b": 0, "c": 0, "default": 0, "idle": 1}


@pytest.mark.django_db
def test_the_number_of_queries_does_not_grow(now: datetime) -> None:
    for number in range(5):
        make_waiting(now, f"queue {number}")
        make_worker(f"worker {number}", now, f"queue {number}")
    with CaptureQueriesContext(connection) as queries:
        queue_coverage(now)
    assert len(queries) == 2
