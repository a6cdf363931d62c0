"""Beats, workers and queues: from rows, and from a broker that may be down."""

from datetime import datetime, timedelta
from time import monotonic

import pytest
from django.test import Client

from punctual.console.status import workers as staff
from punctual.console.status.overview import worker_summaries as on_the_overview
from punctual.console.status.workers import (
    Duty,
    Queue,
    Worker,
    measure_queues,
    queues,
    unsent,
    worker_name,
    workers,
)
from punctual.execution.models import Process
from punctual.jobs.clock import database_now
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import OccurrenceState as S
from punctual.occurrences.states import RunState as R
from tests.console.fixtures import Viewer, page, queries
from tests.console.ledger_rows import make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def held(now: datetime, name: str, by: str, **facts: object) -> TaskRun:
    job = make_job(name, now)
    occurrence = make_occurrence(job, now, S.RUNNING)
    defaults = {"claimed_by": by, "started_at": now, "heartbeat_at": now, "lease_until": now + MINUTE}
    return make_run(occurrence, make_task(job), R.RUNNING, **(defaults | facts))


def test_a_worker_lists_the_runs_of_all_its_processes(now: datetime) -> None:
    first = held(now - MINUTE, "etl", "celery@a/1", heartbeat_at=now - 3 * SECOND)
    second = held(now, "mail", "celery@a/2", heartbeat_at=now - 9 * SECOND, started_at=now - MINUTE)
    [found] = workers(now)
    assert found.name == "celery@a"
    assert {run.pk for run in found.runs} == {first.pk, second.pk}
    assert found.seen_at == now - 3 * SECOND
    assert found.duty(now) is Duty.WORKING


def test_a_worker_whose_every_lease_ran_out_is_silent(now: datetime) -> None:
    held(now, "etl", "celery@a/1", lease_until=now - SECOND)
    held(now, "mail", "celery@a/2", lease_until=now + SECOND)
    held(now, "gone", "celery@b/1", lease_until=now - SECOND)
    for found in (workers(now), on_the_overview(now)):
        duties = {worker.name: worker.duty(now) for worker in found}
        assert duties == {"celery@a": Duty.WORKING, "celery@b": Duty.SILENT}


def test_a_worker_without_runs_is_known_by_its_recent_ones(now: datetime) -> None:
    job = make_job("etl", now)
    task = make_task(job)
    for minute, name in ((3, "celery@idle/1"), (200, "celery@old/1")):
        at = now - minute * MINUTE
        make_run(make_occurrence(job, at), task, claimed_by=name, started_at=at, finished_at=at + SECOND)
    [found] = workers(now)
    assert (found.name, found.runs, found.seen_at) == ("celery@idle", [], now - 3 * MINUTE + SECOND)
    assert found.duty(now) is Duty.STOPPED, "nothing says that it is on duty"


def test_idle_stopped_and_dead_workers_are_distinguished(now: datetime) -> None:
    job, at = make_job("etl", now), now - 3 * MINUTE
    occurrence = make_occurrence(job, at)
    for name in ("idle", "stopped"):
        task, by = make_task(job, name), f"celery@{name}/1"
        make_run(occurrence, task, claimed_by=by, started_at=at, finished_at=at)
    for name, ago in (("idle", 4 * SECOND), ("new", SECOND), ("died", MINUTE), ("long gone", 90 * MINUTE)):
        Process.objects.create(kind="worker", name=f"celery@{name}", started_at=now, seen_at=now - ago)
    found = {worker.name: worker.duty(now) for worker in workers(now)}
    assert found == {
        "celery@new": Duty.IDLE,
        "celery@idle": Duty.IDLE,
        "celery@died": Duty.SILENT,
        "celery@stopped": Duty.STOPPED,
    }
    assert [hand.name for hand in on_the_overview(now)] == ["celery@new", "celery@idle", "celery@died"]


def test_a_renewed_lease_counts_more_than_an_old_presence_row(now: datetime) -> None:
    held(now, "etl", "celery@a/1")
    Process.objects.create(kind="worker", name="celery@a", started_at=now, seen_at=now - MINUTE)
    assert [worker.duty(now) for worker in workers(now)] == [Duty.WORKING]


def test_the_overview_counts_a_workers_processes_together(now: datetime) -> None:
    held(now, "etl", "celery@a/1")
    held(now, "mail", "celery@a/2")
    [hand] = on_the_overview(now)
    assert (hand.name, hand.runs, hand.duty(now)) == ("celery@a", 2, Duty.WORKING)


@pytest.mark.parametrize(
    ("claimed", "name"), [("celery@a/12", "celery@a"), ("local/7", "local"), ("odd", "odd")]
)
def test_the_name_of_a_worker_is_without_the_process_id(claimed: str, name: str) -> None:
    assert worker_name(claimed) == name


def test_each_queue_has_its_own_age(now: datetime) -> None:
    job = make_job("etl", now)
    occurrence = make_occurrence(job, now, S.RUNNING)
    sent = [("a", "reports", 5), ("b", "reports", 90), ("c", "default", 30)]
    for name, queue, seconds in sent:
        facts = {"policy": {"queue": queue}, "dispatched_at": now - seconds * SECOND}
        make_run(occurrence, make_task(job, name), R.SCHEDULED, **facts)
    make_run(occurrence, make_task(job, "taken"), R.RUNNING, policy={"queue": "reports"})
    assert [(one.name, one.waiting, one.age) for one in queues(now)] == [
        ("reports", 2, 90 * SECOND),
        ("default", 1, 30 * SECOND),
    ]


def test_the_default_queue_is_listed_when_it_is_empty(now: datetime) -> None:
    assert queues(now) == [Queue("default", 0, None)]


def test_the_broker_reports_how_many_messages_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staff, "backlog", {"default": 3, "mail": None}.get)
    found = measure_queues([Queue("default", 0, None), Queue("mail", 1, SECOND)], 5)()
    assert [one.length for one in found] == [3, None]


def test_unsent_runs_are_counted_separately(now: datetime) -> None:
    assert unsent(now).count == 0
    job = make_job("etl", now)
    facts = {"dispatched_at": None, "available_at": now - 7 * SECOND}
    make_run(make_occurrence(job, now, S.DISPATCHED), make_task(job), R.SCHEDULED, **facts)
    assert (unsent(now).count, unsent(now).age) == (1, 7 * SECOND)


def test_a_broker_that_does_not_answer_delays_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    started = monotonic()

    def stuck(_queue: str) -> int:
        while monotonic() - started < 2:
            pass
        return 1

    monkeypatch.setattr(staff, "backlog", stuck)
    assert measure_queues([Queue("default", 0, None)], 0.05)() == [Queue("default", 0, None)]
    assert monotonic() - started < 1


def test_the_page_lists_beats_workers_and_queues(root: Client, now: datetime) -> None:
    now = database_now()
    run = held(now, "nightly etl", "celery@a/1")
    Process.objects.create(kind="beat", name="b1", started_at=now, seen_at=now, tick_duration=timedelta())
    Process.objects.create(kind="worker", name="celery@b", started_at=now, seen_at=now)
    text = page(root, "/admin/workers/")
    for word in (
        "celery@b",
        "idle",
        "celery@a",
        "nightly etl",
        str(run.pk),
        "b1",
        "working",
        "ticking",
        "Nothing waits to be sent",
    ):
        assert word in text


def test_an_empty_page_says_what_is_missing(root: Client) -> None:
    text = page(root, "/admin/workers/")
    assert "No worker is on duty" in text
    assert "No beat has ticked" in text


def test_the_cost_of_the_page_does_not_grow(root: Client, now: datetime) -> None:
    now = database_now()
    held(now, "etl", "celery@a/1")
    few = len(queries(root, "/admin/workers/"))
    for number in range(20):
        held(now, f"job {number}", f"celery@{number}/1")
        Process.objects.create(
            kind="beat", name=f"b{number}", started_at=now, seen_at=now, tick_duration=timedelta()
        )
    assert len(queries(root, "/admin/workers/")) == few


def test_the_page_needs_the_permission_to_view_the_ledger(viewer: Viewer) -> None:
    assert viewer("punctual.view_job").get("/admin/workers/").status_code == 403


def test_at_most_three_runs_of_a_worker_are_named(now: datetime) -> None:
    worker = Worker("celery@a", [held(now, f"job {number}", "celery@a/1") for number in range(5)], now, now)
    assert (len(worker.named), worker.more) == (3, 2)
